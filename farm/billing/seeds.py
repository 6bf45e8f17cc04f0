"""The first price list and policy, written by the first migration."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from django.apps.registry import Apps
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

PRICE_LIST = Path(__file__).with_name("price_list.json")


def seed_rates(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Write the default rates. Runs before the table is put under row-level security, which binds its owner too."""
    price_list = json.loads(PRICE_LIST.read_text())
    valid = (datetime.fromisoformat(price_list["valid_from"]), None)
    rate = apps.get_model("billing", "Rate")
    rate.objects.bulk_create(
        rate(
            worker_class=name,
            currency=currency,
            micro_per_gpu_hour=_micro(price),
            valid=valid,
            source=price_list["source"],
        )
        for name, prices in price_list["per_gpu_hour"].items()
        for currency, price in prices.items()
    )


def seed_policy(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Write the default policy, valid as long as the default rates."""
    price_list = json.loads(PRICE_LIST.read_text())
    apps.get_model("billing", "PolicyRow").objects.create(valid_from=datetime.fromisoformat(price_list["valid_from"]))


def _micro(price: str) -> int:
    return int(Decimal(price) * 1_000_000)
