"""What a machine says when it registers."""

from __future__ import annotations

from typing import Any

from workers import protocol


def introduction(secret: str, **changes: Any) -> protocol.RegisterRequest:
    said: dict[str, Any] = {
        "secret": secret,
        "protocol": protocol.PROTOCOL,
        "boot_id": "boot-1",
        "machine_id": "i-1",
        "agent_version": "1.0",
        "slots": [protocol.SlotSpec(index=0, gpu_model="NVIDIA L4", vram_mib=24_000)],
        "cores": 8,
        "memory_mib": 32_000,
        "disk_mib": 100_000,
        "software": {"blender": ["5.0.1"]},
        "sandboxed": True,
    }
    return protocol.RegisterRequest(**said | changes)
