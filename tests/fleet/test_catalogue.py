"""The catalogue: whole, sourced, and with no zero where something is not known."""

from __future__ import annotations

from datetime import date

import pytest

from farm.fleet import catalogue


class TestTables:
    def test_every_type_s_gpu_is_known(self) -> None:
        gpus = {t.gpu for t in catalogue.instance_types().values() if t.gpu}

        assert gpus <= catalogue.gpus().keys()
        assert {"Tesla T4", "NVIDIA A10G", "NVIDIA L4", "NVIDIA L40S", "NVIDIA H100 80GB HBM3"} <= gpus

    def test_there_are_cards_of_workstations_and_of_amd(self) -> None:
        assert {"NVIDIA GeForce RTX 4090", "NVIDIA RTX 6000 Ada Generation", "AMD Radeon PRO W7900"} <= (
            catalogue.gpus().keys()
        )

    def test_nothing_is_zero_and_what_has_gpus_has_memory(self) -> None:
        assert all(g.vram_mib > 0 and (g.score is None or g.score > 0) for g in catalogue.gpus().values())
        assert all(t.vcpus > 0 and t.memory_mib > 0 for t in catalogue.instance_types().values())
        assert min(catalogue.prices().values()) > 0

    def test_every_price_is_of_a_known_type(self) -> None:
        assert {(provider, name) for provider, _, name in catalogue.prices()} <= catalogue.instance_types().keys()

    def test_larger_machines_of_a_family_cost_more_in_every_region(self) -> None:
        for region in {region for _, region, _ in catalogue.prices()}:
            costs = [
                catalogue.on_demand_micro("ec2", region, f"g5.{size}") for size in ("xlarge", "2xlarge", "48xlarge")
            ]
            known = [c for c in costs if c is not None]
            assert known == sorted(known), region


class TestSources:
    def test_each_table_says_whence_and_of_which_day(self) -> None:
        found = {s.table: s for s in catalogue.sources()}

        assert found.keys() == {"gpus", "instance_types", "prices"}
        assert all(source.source and date.fromisoformat(source.as_of) for source in found.values())


class TestSpeed:
    def test_an_l4_is_one_and_what_nobody_measured_is_none(self) -> None:
        assert catalogue.speed("NVIDIA L4") == 1
        assert catalogue.speed("NVIDIA L40S") == pytest.approx(2.57, abs=0.01)
        assert catalogue.speed("Tesla V100-SXM2-32GB") is None
        assert catalogue.speed("a card of tomorrow") is None


class TestTypesWith:
    def test_smallest_first(self) -> None:
        names = [t.name for t in catalogue.types_with("ec2", ["NVIDIA L40S"])]

        assert names[0] == "g6e.xlarge"
        assert names[-1] == "g6e.48xlarge"

    def test_slots_are_gpus_and_a_cpu_machine_is_one(self) -> None:
        by_name = {t.name: t for t in catalogue.instance_types().values()}

        assert (by_name["g6.12xlarge"].slots, by_name["c7a.4xlarge"].slots) == (4, 1)
