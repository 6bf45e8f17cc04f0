"""
Overhead: the wall time of frames through the whole farm ÷ the same frames in one bare `bpy` process.

Both load the scene once and write PNGs. Through the farm: from the order to the last frame verified, stored and
charged, on one worker that is up already. Frames of about two seconds (goal 1.05) and of about 0.2 s (goal 1.5);
beside them one Blender start per frame, which is what most farms do. `SECONDS`, `RUNS` shrink it for a first look.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from farmhand.farm import Farm as Client

from tests.benchmarks.measure import alternate, close, ratio, spread
from tests.harness import ROOT, Farm

FRAMES = 24
RUNS = int(os.environ.get("RUNS", "3"))
COLD_FRAMES = 3
RENDERER = Path(os.environ.get("FARM_RENDERER_PYTHON") or ROOT / ".venvs/renderer/bin/python")
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/tmp"), "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Quality:
    """What makes a frame long or short."""

    samples: int
    percent: int

    @property
    def parameters(self) -> dict[str, str]:
        return {"Samples": str(self.samples), "ResolutionPercent": str(self.percent)}


BARE = """
import sys, bpy
scene_file, out, first, last, samples, percent = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
bpy.ops.wm.open_mainfile(filepath=scene_file, load_ui=False, use_scripts=False)
scene = bpy.context.scene
scene.cycles.samples = samples
scene.render.resolution_percentage = percent
scene.render.use_persistent_data = True
scene.render.image_settings.file_format = "PNG"
for frame in range(first, last + 1):
    scene.frame_set(frame)
    scene.render.filepath = f"{out}/frame_{frame:06d}.png"
    bpy.ops.render.render(write_still=True)
"""


def bare(scene: Path, quality: Quality, *, first: int = 1, last: int = FRAMES) -> float:
    """Render in one bare process; give its seconds, start and scene load included."""
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        subprocess.run(
            [RENDERER, "-c", BARE, scene, out, *map(str, (first, last, quality.samples, quality.percent))],
            env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        took = time.perf_counter() - began
        assert len(list(Path(out).glob("*.png"))) == last - first + 1
    return took


def through(farm: Farm, version: str, quality: Quality) -> float:
    """Render through the farm; give the seconds from the order to the job's end, by the farm's own clock."""
    order = {
        "project": farm.project,
        "scene_version": version,
        "renderer": "blender",
        "parameters": {"Frames": f"1-{FRAMES}", "FileFormat": "PNG", **quality.parameters},
    }
    job = farm.post("/api/v1/jobs", order)["id"]
    while (found := farm.job(job))["status"] == "active":
        time.sleep(5)  # seldom: asking costs the machine that is measured
    assert found["status"] == "succeeded", farm.get(f"/api/v1/jobs/{job}/why")
    return (datetime.fromisoformat(found["ended_at"]) - datetime.fromisoformat(found["created_at"])).total_seconds()


def make_scene(folder: Path) -> Path:
    script = ROOT / "workers/renderers/blender/sample.py"
    shim: list[str | Path] = [
        RENDERER,
        "-m",
        "workers.renderers.blender.bpy_shim",
        "--background",
        "--python",
        script,
        "--",
        folder,
    ]
    subprocess.run(shim, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.blend"))


def quality_for(scene: Path, seconds: float) -> Quality:
    """Find the picture size at which a frame takes about so long: its time grows with its pixels."""
    frames, found = 3, Quality(8, 50)
    for _ in range(3):
        few, many = bare(scene, found, last=1), bare(scene, found, last=1 + frames)
        took = max(0.01, (many - few) / frames)  # process start and load are no frame's
        found = Quality(8, max(4, min(200, round(found.percent * math.sqrt(seconds / took)))))
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = make_scene(Path(folder, "scene"))
        farm = Farm(Path(folder, "farm"))
        farm.up()
        try:
            measure(farm, scene)
        finally:
            farm.down()


def measure(farm: Farm, scene: Path) -> None:
    farm.set_fleet(machines=1, idle_s=3600)
    with Client(farm.variables["FARM_URL"], farm.token) as client:
        version = client.push_scene(scene.parent, entry=scene.name, project="Demo").version["id"]
        client.wait_for_report(version)
    through(farm, version, Quality(1, 10))  # the worker is up, the scene on its disk
    long, short = quality_for(scene, 2.0), quality_for(scene, 0.2)
    print(f"{FRAMES} frames of {scene.name} at {long.percent} % and {short.percent} %; seconds of wall time")
    at_two = alternate({"farm": lambda: through(farm, version, long), "bare": lambda: bare(scene, long)}, times=RUNS)
    at_fifth = alternate(
        {"farm": lambda: through(farm, version, short), "bare": lambda: bare(scene, short)}, times=RUNS
    )
    cold = statistics.median(bare(scene, short, first=f, last=f) for f in range(1, COLD_FRAMES + 1)) * FRAMES
    value, value_short = ratio(at_two["farm"], at_two["bare"]), ratio(at_fifth["farm"], at_fifth["bare"])
    print(f"two seconds:   farm {spread(at_two['farm'])}, bare {spread(at_two['bare'])}: ratio {value:.3f}")
    print(f"0.2 seconds:   farm {spread(at_fifth['farm'])}, bare {spread(at_fifth['bare'])}: ratio {value_short:.3f}")
    print(f"one Blender start per frame of 0.2 s: {cold:.1f}, {cold / statistics.median(at_fifth['bare']):.2f} × bare")
    close(
        "overhead", value, goal=1.05, frames=FRAMES, runs=RUNS, short_ratio=round(value_short, 3), short_goal=1.5,
        cold_ratio=round(cold / statistics.median(at_fifth["bare"]), 3),
        two_second_frames={k: spread(v) for k, v in at_two.items()},
        short_frames={k: spread(v) for k, v in at_fifth.items()},
    )  # fmt: skip


if __name__ == "__main__":
    main()
