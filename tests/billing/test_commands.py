"""What an operator types to set prices and policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from farm.billing.models import Rate
from farm.billing.pricing import Policy, WhenRefused
from farm.billing.selectors import policy_of
from tests.billing.shop import Shop, make_shop


class TestSetRate:
    def test_it_begins_now_for_all(self, db: None, capsys: pytest.CaptureFixture[str]) -> None:
        call_command("set_rate", "Voodoo 2", "USD", "0.123456", source="a friend")

        rate = Rate.objects.get(worker_class="Voodoo 2")
        assert (rate.micro_per_gpu_hour, rate.studio, rate.source) == (123_456, None, "a friend")
        assert rate.valid.lower <= datetime.now(UTC)
        assert capsys.readouterr().out.startswith("Voodoo 2: 0.123456 USD from ")

    def test_it_is_agreed_with_one_studio_from_a_day_on(self, shop: Shop) -> None:
        begin = datetime(2126, 12, 1, tzinfo=UTC)

        call_command("set_rate", "cpu", "USD", "0.1", studio=shop.studio.name.upper(), valid_from=begin)

        assert Rate.objects.get(studio=shop.studio).valid.lower == begin

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["cpu", "USD", "free"], "not a decimal number"),
            (["cpu", "USD", "0.1234567"], "more than six decimals"),
            (["cpu", "USD", "NaN"], "below zero"),
            (["cpu", "USD", "1", "--from", "soon"], "not a moment"),
            (["cpu", "USD", "1", "--from", "2126-01-01T00:00:00"], "offset from UTC"),
            (["cpu", "USD", "1", "--from", "2026-01-02T00:00:00+00:00"], "is over"),
            (["cpu", "USD", "1", "--studio", "nobody"], "no studio 'nobody'"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, db: None, words: list[str], said: str) -> None:
        with pytest.raises(CommandError, match=said):
            call_command("set_rate", *words)


class TestSetPolicy:
    def test_it_is_in_force_from_now_on_for_one_studio(self, shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
        call_command("set_policy", studio=shop.studio.name, scene_error_cap_seconds=60, when_refused="finish")

        later = datetime.now(UTC) + timedelta(seconds=1)
        agreed = Policy(scene_error_cap_seconds=60, when_refused=WhenRefused.FINISH)
        assert policy_of(shop.studio.id, now=later) == agreed
        assert policy_of(make_shop().studio.id, now=later) == Policy()
        assert "when_refused: finish" in capsys.readouterr().out

    def test_an_unknown_studio_is_refused(self, db: None) -> None:
        with pytest.raises(CommandError, match="no studio"):
            call_command("set_policy", studio="nobody")
