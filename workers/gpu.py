"""The GPUs of this machine, by NVIDIA's management library; a machine without it has CPU slots."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml

from workers.protocol import SlotSpec

LOG = logging.getLogger("farmhand.gpu")
SHARED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


@dataclasses.dataclass(frozen=True)
class Gauge:
    """What a GPU does at a moment; None where it does not say."""

    use: float | None = None
    memory_mib: int | None = None
    power_w: float | None = None


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU, or the absence of one."""

    model: str = ""
    vram_mib: int = 0
    handle: Any = None
    nodes: tuple[str, ...] = ()

    @property
    def device(self) -> str:
        """What a renderer in this slot is to use."""
        return "GPU" if self.model else "CPU"

    def spec(self, index: int) -> SlotSpec:
        return SlotSpec(index=index, gpu_model=self.model, vram_mib=self.vram_mib)

    def read(self) -> Gauge:
        """Measure the GPU now."""
        if self.handle is None:
            return Gauge()
        return Gauge(
            use=_ask(lambda: pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu / 100),
            memory_mib=_ask(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(self.handle).used) >> 20),
            power_w=_ask(lambda: pynvml.nvmlDeviceGetPowerUsage(self.handle) / 1000),
        )


def find_gpus() -> list[Gpu]:
    """List the machine's GPUs; [] where there is no driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        LOG.info("no GPU: %s", error)
        return []
    return list(_gpus())


def _gpus() -> Iterator[Gpu]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        with contextlib.suppress(pynvml.NVMLError):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            own = f"/dev/nvidia{pynvml.nvmlDeviceGetMinorNumber(handle)}"
            yield Gpu(
                model=_text(pynvml.nvmlDeviceGetName(handle)),
                vram_mib=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20,
                handle=handle,
                nodes=(own, *(node for node in SHARED_NODES if Path(node).exists())),
            )


def _ask(question: Any) -> Any:
    """Ask one thing; not every card answers everything."""
    try:
        return question()
    except pynvml.NVMLError:
        return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
