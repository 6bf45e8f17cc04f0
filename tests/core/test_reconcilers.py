"""Stored answers are kept as long as somebody may ask again, and no longer."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from farm.core import reconcilers
from farm.core.models import IdempotencyKey
from farm.core.reconcilers import KEPT, forget

pytestmark = pytest.mark.django_db


def answered(at: datetime, *, key: str) -> IdempotencyKey:
    facts = {"studio_id": uuid4(), "route": "POST /", "key": key, "request_digest": "", "status": 201, "body": {}}
    return IdempotencyKey.objects.create(**facts, at=at)


class TestForget:
    def test_an_answer_of_more_than_a_week_ago_is_forgotten(self, now: datetime) -> None:
        answered(now - KEPT - timedelta(seconds=1), key="old")
        kept = answered(now - KEPT + timedelta(seconds=1), key="young")

        assert forget(now=now) == 1
        assert list(IdempotencyKey.objects.all()) == [kept]

    def test_what_is_more_than_a_batch_goes_in_several(self, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reconcilers, "BATCH", 2)
        for number in range(5):
            answered(now - KEPT * 2, key=str(number))

        assert forget(now=now) == 5
        assert forget(now=now) == 0
