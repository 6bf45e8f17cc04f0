"""Reports as an inspection writes them."""

from __future__ import annotations

from typing import Any


def a_scene(**change: Any) -> dict[str, Any]:
    return {
        "name": "Scene",
        "active": True,
        "drawn": True,
        "engine": "CYCLES",
        "device": "GPU",
        "samples": 128,
        "camera": "Camera",
        "cameras": ["Camera", "Close"],
        "markers": [],
        "view_layers": [{"name": "ViewLayer", "on": True}, {"name": "Masks", "on": False}],
        "frames": {"start": 1, "end": 250, "step": 1},
        "fps": [24, 1],
        "resolution": {"x": 1920, "y": 1080, "percent": 50, "width": 960, "height": 540},
        "region": None,
        "multiview": False,
        "output": {
            "format": "PNG",
            "movie": False,
            "color_mode": "RGBA",
            "color_depth": 8,
            "views": "INDIVIDUAL",
            "path": "//out",
        },
        "compositor": False,
        "sequencer": False,
        **change,
    }


def a_dependency(path: str, **change: Any) -> dict[str, Any]:
    return {"kind": "image", "name": path, "path": path, "needed": True, "state": "found", **change}


def a_problem(code: str, **change: Any) -> dict[str, Any]:
    return {"code": code, "severity": "warning", "params": {}, "sentence": f"About {code}.", **change}


def a_report(**change: Any) -> dict[str, Any]:
    return {
        "report": 1,
        "entry": "a.blend",
        "renderer": {"name": "blender", "version": "5.0.1"},
        "saved_by": "5.0",
        "refusal": None,
        "active_scene": "Scene",
        "scenes": [a_scene()],
        "dependencies": [],
        "problems": [],
        **change,
    }
