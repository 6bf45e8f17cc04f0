"""What a step needs and what a slot has, in OpenJD's words."""

from __future__ import annotations

from typing import Any

import pytest

from farm.fleet.requirements import (
    Capabilities,
    Requirements,
    UnknownCapability,
    capabilities_of,
    lack_in_words,
    minor,
    parse_host_requirements,
    shortfall,
    version_key,
)


def slot(**changes: Any) -> Capabilities:
    machine: dict[str, Any] = {
        "cores": 32,
        "memory_mib": 64_000,
        "disk_mib": 102_400,
        "slots": 4,
        "gpu_model": "NVIDIA L4",
        "vram_mib": 24_000,
        "fleet": "night",
        "software": {"blender": ["5.0.1", "4.5.3"]},
    }
    return capabilities_of(**machine | changes)


class TestParseHostRequirements:
    def test_amounts_and_attributes_are_read_without_their_prefixes(self) -> None:
        needed = parse_host_requirements(
            {
                "amounts": [{"name": "amount.worker.vcpu", "min": 4, "max": 16}, {"name": "amount.worker.gpu"}],
                "attributes": [
                    {"name": "attr.worker.os.family", "anyOf": ["linux", "macos"]},
                    {"name": "farmhand:attr.fleet", "anyOf": ["night"]},
                    {"name": "farmhand:attr.blender", "allOf": ["5.0"]},
                ],
            }
        )

        assert needed.amounts == {"worker.vcpu": 4.0, "worker.gpu": 0.0}
        assert needed.attributes == {
            "worker.os.family": ["linux", "macos"],
            "farmhand:fleet": ["night"],
            "farmhand:blender": ["5.0"],
        }

    def test_nothing_asked_is_nothing_needed(self) -> None:
        assert parse_host_requirements({}) == Requirements({}, {})

    @pytest.mark.parametrize(
        ("host", "words"),
        [
            (
                {"amounts": [{"name": "amount.worker.licences", "min": 1}]},
                r"amount\.worker\.licences.*amount\.worker\.vcpu",
            ),
            ({"attributes": [{"name": "attr.custom.x", "anyOf": ["y"]}]}, r"attr\.custom\.x.*attr\.worker\.os\.family"),
            ({"attributes": [{"name": "acme:attr.fleet", "anyOf": ["y"]}]}, r"acme:attr\.fleet"),
        ],
    )
    def test_what_no_worker_states_is_refused_with_what_they_do(self, host: dict[str, Any], words: str) -> None:
        with pytest.raises(UnknownCapability, match=words):
            parse_host_requirements(host)

    def test_they_survive_being_stored(self) -> None:
        needed = Requirements({"worker.gpu": 1}, {"farmhand:fleet": ["night"]})

        assert Requirements.from_json(needed.to_json()) == needed
        assert needed.needs_gpu
        assert not Requirements().needs_gpu


class TestShortfall:
    @pytest.mark.parametrize(
        ("amounts", "attributes", "lack"),
        [
            ({}, {}, None),
            ({"worker.vcpu": 8}, {}, None),
            ({"worker.vcpu": 9}, {}, ("worker.vcpu", 9)),
            ({"worker.memory": 16_000}, {}, None),
            ({"worker.memory": 16_001}, {}, ("worker.memory", 16_001)),
            ({"worker.gpu": 1}, {}, None),
            ({"worker.gpu": 2}, {}, ("worker.gpu", 2)),
            ({"worker.gpu.memory": 24_001}, {}, ("worker.gpu.memory", 24_001)),
            ({"worker.disk.scratch": 100}, {}, None),
            ({"worker.disk.scratch": 101}, {}, ("worker.disk.scratch", 101)),
            ({}, {"worker.os.family": ["linux", "macos"]}, None),
            ({}, {"worker.os.family": ["windows"]}, ("worker.os.family", ["windows"])),
            ({}, {"farmhand:blender": ["5.0"]}, None),
            ({}, {"farmhand:blender": ["5.1"]}, ("farmhand:blender", ["5.1"])),
            ({}, {"farmhand:fleet": ["day"]}, ("farmhand:fleet", ["day"])),
            ({}, {"farmhand:blender": []}, ("farmhand:blender", [])),
        ],
    )
    def test_the_first_thing_that_is_lacking_is_given(
        self, amounts: dict[str, float], attributes: dict[str, list[str]], lack: tuple[str, Any] | None
    ) -> None:
        assert shortfall(Requirements(amounts, attributes), slot()) == lack

    def test_a_machine_without_a_gpu_has_none(self) -> None:
        assert shortfall(Requirements({"worker.gpu": 1}), slot(gpu_model="", vram_mib=0)) == ("worker.gpu", 1)


class TestLackInWords:
    @pytest.mark.parametrize(
        ("name", "needed", "words"),
        [
            ("worker.gpu", 1, "has no GPU"),
            ("worker.memory", 64_000.0, "has less than 64,000 MiB of memory a slot"),
            ("worker.vcpu", 4.0, "has fewer than 4 cores a slot"),
            ("farmhand:blender", ["5.0", "5.1"], "has no blender 5.0 or 5.1"),
            ("farmhand:fleet", ["night"], "is not the fleet asked for"),
            ("worker.os.family", ["windows"], "has no worker.os.family windows"),
            ("purpose", "render", "does not take work of this kind (render)"),
        ],
    )
    def test_it_reads_after_a_fleet_s_name(self, name: str, needed: Any, words: str) -> None:
        assert lack_in_words(name, needed) == words


class TestVersions:
    def test_they_are_matched_by_their_first_two_numbers(self) -> None:
        assert [minor(v) for v in ("5.0.1", "5.0", "5", "4.10.2")] == ["5.0", "5.0", "5", "4.10"]

    def test_they_are_ordered_by_number(self) -> None:
        assert sorted(["4.10", "4.9", "5.0", "4.2"], key=version_key) == ["4.2", "4.9", "4.10", "5.0"]
