"""The wide range of an order: from the scene's own frames, from others, from nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from farm.dispatch.models import Pace
from farm.jobs.models import Job, Step
from farm.jobs.orders import JobOrder
from farm.jobs.services import submit_job
from farm.scenes.models import SceneVersion
from farm.scenes.services import create_scene
from farm.studios.authentication import Caller
from farm.studios.roles import Scope
from tests.api import Api
from tests.farm import TEMPLATE, TWO_STEPS, Customer, open_customer
from tests.jobs.conftest import MakeVersion

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("farm")]


@pytest.fixture
def now() -> datetime:
    """The door reads the clock itself."""
    return datetime.now(UTC)


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def render(customer: Customer, version: SceneVersion, *, now: datetime, ms: int, **parameters: str) -> Job:
    """A job of a scene of which frames were rendered in so many milliseconds each."""
    order = JobOrder(renderer="blender", parameters={"Frames": "1-4", **parameters})
    job = submit_job(project=customer.project, artist=customer.user, order=order, version=version, now=now)
    Pace.objects.create(studio=customer.studio, step=Step.objects.get(job=job), worker_class="cpu", recent_ms=[ms] * 4)
    return job


class TestEstimates:
    def wish(self, customer: Customer, version: SceneVersion, **parameters: str) -> dict[str, Any]:
        return {
            "project": str(customer.project.id),
            "scene_version": str(version.id),
            "renderer": "blender",
            "parameters": {"Frames": "1-10", **parameters},
        }

    def test_without_history_it_is_wide_and_says_so(
        self,
        api: Api,
        customer: Customer,
        make_version: MakeVersion,
    ) -> None:
        answer = api.post("estimates", self.wish(customer, make_version()))

        assert answer.status == 200, answer.body
        assert (answer.body["tasks"], answer.body["currency"]) == (10, "USD")
        (row,) = answer.body["results"]
        assert (row["fleet"], row["worker_class"], row["basis"], row["frames"]) == ("local", "cpu", "catalogue", 0)
        assert row["p10_micro"] < row["p50_micro"] < row["p90_micro"]
        assert row["p10_s"] < row["p90_s"]
        assert row["micro_per_gpu_hour"] == 400_000
        assert not Job.objects.exists()

    def test_it_learns_from_an_earlier_version_of_the_scene(
        self,
        api: Api,
        customer: Customer,
        make_version: MakeVersion,
        now: datetime,
    ) -> None:
        render(customer, make_version(), now=now, ms=9_000)

        (row,) = api.post("estimates", self.wish(customer, make_version())).body["results"]

        assert (row["basis"], row["frames"]) == ("scene", 4)
        assert row["p50_micro"] == 10 * 9_000 * 400_000 // 3_600_000
        assert row["slots"] == 2
        assert row["p50_s"] == 5 * 9

    def test_twice_as_large_in_both_directions_is_four_times_the_price(
        self,
        api: Api,
        customer: Customer,
        make_version: MakeVersion,
        now: datetime,
    ) -> None:
        version = make_version()
        render(customer, version, now=now, ms=9_000, ResolutionPercent="25")

        (row,) = api.post("estimates", self.wish(customer, version, ResolutionPercent="50")).body["results"]

        assert row["p50_micro"] == 4 * 10 * 9_000 * 400_000 // 3_600_000

    def test_frames_of_other_scenes_are_better_than_none(
        self,
        api: Api,
        customer: Customer,
        make_version: MakeVersion,
        now: datetime,
    ) -> None:
        other, version = make_version(), make_version()
        caller = Caller(customer.user, customer.studio, frozenset(Scope), None, None)
        scene = create_scene(caller, project=customer.project, name="Other")
        SceneVersion.objects.filter(pk=other.pk).update(scene=scene, number=1)
        render(customer, SceneVersion.objects.get(pk=other.pk), now=now, ms=5_000)

        (row,) = api.post("estimates", self.wish(customer, version)).body["results"]

        assert (row["basis"], row["frames"]) == ("studio", 4)

    def test_another_studios_frames_are_nobodys_business(
        self,
        customer: Customer,
        make_version: MakeVersion,
        now: datetime,
    ) -> None:
        render(customer, make_version(), now=now, ms=5_000)
        stranger = open_customer()

        answer = Api(stranger).post("estimates", {"project": str(stranger.project.id), "template": TEMPLATE})

        (row,) = answer.body["results"]
        assert row["basis"] == "catalogue"

    def test_a_class_without_a_rate_has_no_price(self) -> None:
        customer = open_customer(currency="NOK")

        answer = Api(customer).post("estimates", {"project": str(customer.project.id), "template": TEMPLATE})

        (row,) = answer.body["results"]
        assert (row["micro_per_gpu_hour"], row["p50_micro"], row["p50_s"]) == (None, None, None)

    def test_all_steps_must_be_able_to_run_there(self, api: Api, customer: Customer) -> None:
        answer = api.post("estimates", {"project": str(customer.project.id), "template": TWO_STEPS})

        assert [row["fleet"] for row in answer.body["results"]] == ["local"]
        assert answer.body["tasks"] == 3

    def test_what_submission_refuses_it_refuses_alike(
        self,
        api: Api,
        customer: Customer,
        make_version: MakeVersion,
    ) -> None:
        wish = self.wish(customer, make_version(), Frames="5-1")

        assert api.post("estimates", wish).body == api.post("jobs", wish).body
