"""What a renderer's log gives away about why a frame is no good, whatever else the renderer claims. Pure."""

from __future__ import annotations

import re

_MEMORY = re.compile(
    r"\bout of (?:GPU |GPU and shared host )?memory\b|(?:Malloc|Calloc) returns null|std::bad_alloc|MemoryError"
    r"|CUDA_ERROR_OUT_OF_MEMORY",
    re.IGNORECASE,
)
_DISK = re.compile(r"(?:write|writing|save|output).*(?:No space left on device|Disk quota exceeded)", re.IGNORECASE)
_GPU = re.compile(r"Failed to create \w+ (?:GPU )?context|Couldn't find current GLX or EGL context")
_PLACE = re.compile(r'\s+File "(?P<file>[^"]*)", line \d+')

MEMORY_SENTENCE = (
    "Blender ran out of memory: choose a fleet with more memory, or a smaller frame, fewer subdivisions or smaller "
    "textures."
)
DISK_SENTENCE = "The disk of this worker is full, so the frame could not be written: the farm tries another worker."
GPU_SENTENCE = "Blender could not use a GPU on this worker: the farm tries another worker."
SCRIPT_SENTENCE = "A script of the scene failed ({}): correct it and upload the scene again."


class LogWatch:
    """Hears a log line by line; `cause` is what it gave away since `begin`: a cause and a sentence, or None."""

    def __init__(self) -> None:
        self.last = ""
        self.begin()

    def begin(self) -> None:
        """Forget what was: another frame begins."""
        self.cause: tuple[str, str] | None = None
        self._places: list[str] | None = None

    def hear(self, line: str) -> None:
        """Take the next line."""
        self.last = line.strip() or self.last
        if _MEMORY.search(line):
            self.cause = ("out_of_memory", MEMORY_SENTENCE)
        elif _DISK.search(line):
            self.cause = ("disk_full", DISK_SENTENCE)
        elif _GPU.search(line):
            self.cause = self.cause or ("no_gpu", GPU_SENTENCE)
        self._hear_traceback(line)

    def _hear_traceback(self, line: str) -> None:
        """Notice Python errors of the scene's scripts; Blender's fluid solver makes harmless ones, in no file."""
        if line.startswith("Traceback (most recent call last)"):
            self._places = []
        elif self._places is not None and line.startswith(" "):
            place = _PLACE.match(line)
            self._places += [] if place is None else [place["file"]]
        elif self._places is not None:
            if any(place != "<string>" for place in self._places):
                self.cause = self.cause or ("scene_error", SCRIPT_SENTENCE.format(line.strip()))
            self._places = None
