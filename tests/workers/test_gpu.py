# ruff: noqa: N802  these are NVIDIA's names
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workers import gpu as gpu_module
from workers.agent import choose_slots
from workers.gpu import Gauge, Gpu, find_gpus
from workers.protocol import SlotSpec


class Nvml:
    """NVIDIA's library on a machine with one card that does not tell its power."""

    NVMLError = type("NVMLError", (Exception,), {})

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"card{index}"

    def nvmlDeviceGetMinorNumber(self, handle: str) -> int:
        return 3

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA L4"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=24 << 30, used=5 << 20)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return SimpleNamespace(gpu=42)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        raise self.NVMLError


class TestFindGpus:
    def test_a_card_is_a_slot_with_its_own_device_node(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu_module, "pynvml", Nvml())

        [gpu] = find_gpus()

        assert gpu.spec(0) == SlotSpec(index=0, gpu_model="NVIDIA L4", vram_mib=24 << 10)
        assert gpu.nodes[0] == "/dev/nvidia3"
        assert gpu.device == "GPU"

    def test_what_a_card_does_not_say_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu_module, "pynvml", Nvml())

        assert find_gpus()[0].read() == Gauge(use=0.42, memory_mib=5, power_w=None)

    def test_a_card_that_does_not_answer_is_no_slot_and_spoils_no_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Two(Nvml):
            def nvmlDeviceGetCount(self) -> int:
                return 2

            def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
                if index == 0:
                    raise self.NVMLError  # it fell off the bus
                return super().nvmlDeviceGetHandleByIndex(index)

        monkeypatch.setattr(gpu_module, "pynvml", Two())

        assert [gpu.handle for gpu in find_gpus()] == ["card1"]

    def test_a_card_that_falls_silent_at_work_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Silent(Nvml):
            def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
                raise self.NVMLError

        monkeypatch.setattr(gpu_module, "pynvml", Silent())

        assert find_gpus()[0].read() == Gauge(use=None, memory_mib=5, power_w=None)

    def test_a_machine_without_driver_has_none(self) -> None:
        if find_gpus():
            pytest.skip("this machine has a GPU")

        assert choose_slots(None, []) == [Gpu()]
        assert Gpu().device == "CPU"
        assert Gpu().read() == Gauge()


class TestChooseSlots:
    def test_one_slot_a_gpu_unless_told(self) -> None:
        cards = [Gpu(model="L4"), Gpu(model="L4")]

        assert choose_slots(None, cards) == cards
        assert choose_slots(1, cards) == cards[:1]
        assert choose_slots(3, cards) == [*cards, Gpu()]
