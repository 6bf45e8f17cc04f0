"""
Blender's command line on top of `bpy`, Blender as a Python module: `python -m workers.renderers.blender.bpy_shim ARGS`.

As in Blender, settings are taken first wherever they stand, then everything else in its order, so that
`-b scene.blend -o //x_#### -f 1` differs from `-f 1 -o //x_####`. Imports nothing but the standard library and bpy.
"""

from __future__ import annotations

import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

FORMAT_NAMES = {"TGA": "TARGA", "RAWTGA": "TARGA_RAW", "IRIZ": "IRIS", "JP2": "JPEG2000", "MPEG": "FFMPEG"}
"""The command line's names for file formats, where they are not the scene's."""


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


SETTINGS_ALONE = _options(
    "-b --background --factory-startup -y --enable-autoexec -Y --disable-autoexec -v --version -h --help -q --quiet "
    "-noaudio --offline-mode --online-mode --disable-crash-handler --disable-abort-handler -d --debug -con "
    "--start-console --log-show-source --log-show-backtrace --log-show-memory --log-show-timestamp "
    "--python-use-system-env --disable-depsgraph-on-file-load"
)
SETTINGS_WITH_VALUE = _options(
    "-t --threads --python-exit-code --log --log-level --log-file --gpu-backend -setaudio --app-template --debug-value "
    "--env-system-datafiles --env-system-scripts --env-system-extensions --env-system-python"
)
ACTIONS_ALONE = _options("-a --render-anim")
ACTIONS_WITH_VALUE = _options(
    "-o --render-output -F --render-format -f --render-frame -s --frame-start -e --frame-end -j --frame-jump "
    "-E --engine -S --scene -x --use-extension -P --python --python-expr --python-text --addons"
)


class CommandLineError(Exception):
    """The command line asks for what cannot be done; the text says what."""


@dataclass
class CommandLine:
    """Arguments taken apart: settings hold for the whole run, actions happen one after another."""

    settings: dict[str, str] = field(default_factory=dict)
    actions: list[tuple[str, str]] = field(default_factory=list)  # ("", path) opens a file


def parse(arguments: Sequence[str]) -> CommandLine:
    """
    Take a Blender command line apart.

    :raises CommandLineError: an option is unknown, or its value is missing
    """
    line = CommandLine()
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            break
        if argument in SETTINGS_WITH_VALUE:
            line.settings[argument] = _value(argument, rest)
        elif argument in SETTINGS_ALONE or argument.startswith("--debug-"):
            line.settings[argument] = ""
        elif argument in ACTIONS_ALONE:
            line.actions.append((argument, ""))
        elif argument in ACTIONS_WITH_VALUE:
            line.actions.append((argument, _value(argument, rest)))
        elif argument.startswith("-"):
            raise CommandLineError(f"unknown option {argument}")
        else:
            line.actions.append(("", argument))
    return line


def _value(option: str, rest: Iterator[str]) -> str:
    try:
        return next(rest)
    except StopIteration:
        raise CommandLineError(f"option {option} lacks its value") from None


def parse_frame(text: str, *, start: int, end: int) -> int:
    """
    Read a frame as Blender does: 7, or +7 from the start, or -7 before the end.

    :raises CommandLineError: it is no number
    """
    try:
        if text.startswith("+"):
            return start + int(text[1:])
        if text.startswith("-"):
            return end - int(text[1:])
        return int(text)
    except ValueError:
        raise CommandLineError(f"{text!r} is no frame") from None


def parse_frames(text: str, *, start: int, end: int) -> list[int]:
    """
    Read a list of frames and ranges, 1,3,8..10, in its order.

    :raises CommandLineError: a part of it is no frame
    """
    frames: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        begin = parse_frame(first, start=start, end=end)
        finish = parse_frame(last, start=start, end=end) if dots else begin
        if finish < begin:
            raise CommandLineError(f"range {part} ends before it begins")
        frames.extend(range(begin, finish + 1))
    return frames


class Session:
    """A running Blender that does as the command line says."""

    def __init__(self, line: CommandLine) -> None:
        import bpy

        self.bpy: Any = bpy
        self.line = line
        self.modules: list[types.ModuleType] = []  # what scripts leave behind must not vanish with them

    def run(self) -> None:
        """
        Apply the settings, then do the actions in order.

        :raises CommandLineError: one of them cannot be done
        """
        settings = self.line.settings
        if "--factory-startup" in settings:
            self.bpy.ops.wm.read_factory_settings()
        for option in settings:  # the last one wins, as in Blender
            if option in ("-y", "--enable-autoexec", "-Y", "--disable-autoexec"):
                enabled = option in ("-y", "--enable-autoexec")
                self.bpy.context.preferences.filepaths.use_scripts_auto_execute = enabled
        self.fix_threads()
        for option, value in self.line.actions:
            ACTIONS[option](self, value)

    @property
    def scene(self) -> Any:
        return self.bpy.context.scene

    def open(self, path: str) -> None:
        scripts = self.bpy.context.preferences.filepaths.use_scripts_auto_execute
        try:
            self.bpy.ops.wm.open_mainfile(filepath=os.path.abspath(path), load_ui=False, use_scripts=scripts)  # noqa: PTH100
        except RuntimeError as error:
            raise CommandLineError(f"cannot read file {path}: {str(error).strip()}") from error
        self.fix_threads()

    def fix_threads(self) -> None:
        count = int(self.line.settings.get("-t", self.line.settings.get("--threads", "0")))
        if count > 0:
            for scene in self.bpy.data.scenes:
                scene.render.threads_mode, scene.render.threads = "FIXED", count

    def set_output(self, value: str) -> None:
        """Set where frames go: "//" is beside the scene; what else is relative starts at the working folder."""
        self.scene.render.filepath = value if value.startswith("/") else os.path.join(os.getcwd(), value)  # noqa: PTH109, PTH118

    def set_format(self, value: str) -> None:
        settings = self.scene.render.image_settings
        name = FORMAT_NAMES.get(value, value)
        media = {"FFMPEG": "VIDEO", "OPEN_EXR_MULTILAYER": "MULTI_LAYER_IMAGE"}.get(name, "IMAGE")
        try:
            settings.media_type = media
            settings.file_format = name
        except TypeError:
            raise CommandLineError(f"unknown file format {value}") from None

    def set_extension(self, value: str) -> None:
        if value.lower() not in ("0", "1", "true", "false"):
            raise CommandLineError(f"-x takes 0 or 1, not {value}")
        self.scene.render.use_file_extension = value.lower() in ("1", "true")

    def set_start(self, value: str) -> None:
        self.scene.frame_start = parse_frame(value, start=self.scene.frame_start, end=self.scene.frame_start)

    def set_end(self, value: str) -> None:
        self.scene.frame_end = parse_frame(value, start=self.scene.frame_end, end=self.scene.frame_end)

    def set_jump(self, value: str) -> None:
        self.scene.frame_step = max(1, parse_frame(value, start=0, end=0))

    def set_engine(self, value: str) -> None:
        try:
            self.scene.render.engine = value
        except TypeError:
            raise CommandLineError(f"there is no engine {value}") from None

    def set_scene(self, value: str) -> None:
        if value not in self.bpy.data.scenes:
            raise CommandLineError(f"there is no scene {value}")
        self.bpy.context.window.scene = self.bpy.data.scenes[value]

    def enable_addons(self, value: str) -> None:
        for name in value.split(","):
            self.bpy.ops.preferences.addon_enable(module=name)

    def render_frames(self, value: str) -> None:
        for frame in parse_frames(value, start=self.scene.frame_start, end=self.scene.frame_end):
            self.render(frame, frame)

    def render_animation(self, _: str) -> None:
        self.render(self.scene.frame_start, self.scene.frame_end)

    def render(self, start: int, end: int) -> None:
        try:
            self.bpy.ops.render.render(animation=True, frame_start=start, frame_end=end)
        except RuntimeError as error:
            raise CommandLineError(str(error).strip()) from error

    def run_file(self, value: str) -> None:
        try:
            with open(value, "rb") as file:  # noqa: PTH123
                source = file.read()
        except OSError as error:
            raise CommandLineError(f"cannot read script {value}: {error.strerror}") from error
        self.run_code(source, value)

    def run_expression(self, value: str) -> None:
        self.run_code(value, "<python-expr>")

    def run_text(self, value: str) -> None:
        if value not in self.bpy.data.texts:
            raise CommandLineError(f"the file has no text {value}")
        self.run_code(self.bpy.data.texts[value].as_string(), f"{self.bpy.data.filepath}/{value}")

    def run_code(self, source: str | bytes, name: str) -> None:
        """Run Python as a main program of its own; its errors end us only if --python-exit-code says so."""
        module = types.ModuleType("__main__")
        module.__dict__["__file__"] = name
        self.modules.append(module)
        sys.modules["__main__"] = module
        try:
            exec(compile(source, name, "exec"), module.__dict__)  # noqa: S102 - it is what --python is for
        except Exception:
            traceback.print_exc()
            code = int(self.line.settings.get("--python-exit-code", "0"))
            if code:
                end(code)


ACTIONS: dict[str, Callable[[Session, str], None]] = {"": Session.open}
for _names, _action in {
    "-a --render-anim": Session.render_animation,
    "-o --render-output": Session.set_output,
    "-F --render-format": Session.set_format,
    "-f --render-frame": Session.render_frames,
    "-s --frame-start": Session.set_start,
    "-e --frame-end": Session.set_end,
    "-j --frame-jump": Session.set_jump,
    "-E --engine": Session.set_engine,
    "-S --scene": Session.set_scene,
    "-x --use-extension": Session.set_extension,
    "-P --python": Session.run_file,
    "--python-expr": Session.run_expression,
    "--python-text": Session.run_text,
    "--addons": Session.enable_addons,
}.items():
    ACTIONS |= dict.fromkeys(_names.split(), _action)


def main(arguments: list[str]) -> int:
    """Do as the command line says and return the exit code."""
    sys.argv = ["blender", *arguments]
    try:
        line = parse(arguments)
        if line.settings.keys() & {"-h", "--help"}:
            print(__doc__)
        elif line.settings.keys() & {"-v", "--version"}:
            show_version()
        elif not line.settings.keys() & {"-b", "--background"}:
            raise CommandLineError("this Blender has no window: add --background")
        else:
            Session(line).run()
    except CommandLineError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 0


def show_version() -> None:
    import bpy

    app: Any = bpy.app
    print(f"Blender {app.version_string}")
    print(f"\tbuild hash: {app.build_hash.decode()}")
    print(f"\tbuild platform: {app.build_platform.decode()} (bpy module)")


def end(code: int) -> NoReturn:
    """End at once: the module's own teardown can crash after all is done."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
