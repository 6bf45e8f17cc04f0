"""Why Blender cannot render or read a scene: each class's docstring is the sentence a person reads."""

from __future__ import annotations


class Refusal(Exception):
    """Blender cannot go on."""

    cause = "scene_error"
    """What a program reads: a value of `workers.protocol.Cause`."""

    code = "scene_error"
    """What a report calls it."""

    def __init__(self, **params: object) -> None:
        self.params = params
        super().__init__(" ".join((self.__doc__ or "").split()).format(**params))

    @property
    def sentence(self) -> str:
        return str(self)


class NoSuchFile(Refusal):
    """The upload holds no file {path}: choose the .blend that opens the scene."""

    cause = "scene_unreadable"
    code = "no_such_file"


class NotABlend(Refusal):
    """{path} is {what}, not a .blend file: {advice}."""

    cause = "scene_unreadable"
    code = "not_a_blend"


class Unreadable(Refusal):
    """Blender cannot read {path} ({detail}), so it is damaged or was cut off: copy it once more, or upload a backup such as a .blend1."""  # noqa: E501

    cause = "scene_unreadable"
    code = "unreadable"


class NewerThanRenderer(Refusal):
    """{path} was saved by Blender {version}, newer than Blender {reader} here: choose a fleet with Blender {version}
    or newer."""

    cause = "scene_unreadable"
    code = "newer_than_renderer"
