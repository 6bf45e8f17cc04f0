"""What log lines give away; the lines are Blender's own."""

from __future__ import annotations

import pytest

from workers.renderers.blender.log_watch import LogWatch


def cause_of(text: str) -> str | None:
    watch = LogWatch()
    for line in text.splitlines():
        watch.hear(line)
    return watch.cause and watch.cause[0]


class TestLogWatch:
    @pytest.mark.parametrize(
        ("text", "cause"),
        [
            ("Malloc returns null: len=318767104 in Cycles Alloc, total 330489592", "out_of_memory"),
            ("  what():  std::bad_alloc", "out_of_memory"),
            ("00:12.1  cycles | ERROR System is out of GPU memory", "out_of_memory"),
            ('ERROR Failed to write pixel data to image file "a.exr". No space left on device.', "disk_full"),
            ("Failed to create headless GPU context: EGL Error (0x3001)", "no_gpu"),
            ("00:03.301  render           | Saved: '/out/frame_000001.png'", None),
            ("Output file write error --- out of disk space?", None),
        ],
    )
    def test_a_line(self, text: str, cause: str | None) -> None:
        assert cause_of(text) == cause

    def test_an_error_in_a_script_of_the_scene(self) -> None:
        text = 'Traceback (most recent call last):\n  File "/scene/a.blend/rig.py", line 3, in turn\nKeyError: "Arm"\n'

        assert cause_of(text) == "scene_error"

    def test_the_fluid_solvers_own_errors_are_harmless(self) -> None:
        text = 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nNameError: no grid\n'

        assert cause_of(text) is None

    def test_a_new_frame_begins_without_blame(self) -> None:
        watch = LogWatch()
        watch.hear("std::bad_alloc")

        watch.begin()

        assert watch.cause is None
        assert watch.last == "std::bad_alloc"
