"""Let a new rate begin."""

from __future__ import annotations

import argparse
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from farm.billing.selectors import decimal
from farm.billing.services import set_rate
from farm.core.errors import Refusal
from farm.studios.models import Studio


def price(text: str) -> int:
    """Parse a price in the currency's units, to the micro-unit."""
    try:
        micro = Decimal(text).scaleb(6)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a decimal number") from None
    if not micro.is_finite() or micro < 0 or micro != micro.to_integral_value():
        raise argparse.ArgumentTypeError(f"{text!r} is below zero or has more than six decimals")
    return int(micro)


def moment(text: str) -> datetime:
    """Parse a moment with its offset from UTC."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a moment such as 2026-12-01T00:00:00+00:00") from None
    if parsed.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} does not say its offset from UTC")
    return parsed


class Command(BaseCommand):
    help = "Let a new rate begin, for all studios or one; the rate before it ends there. Quoted jobs keep theirs."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("worker_class", help='"cpu", or the GPU\'s name: "NVIDIA L4"')
        parser.add_argument("currency")
        parser.add_argument("per_gpu_hour", type=price, help="in the currency's units: 0.805")
        parser.add_argument("--from", type=moment, dest="valid_from", help="now unless said")
        parser.add_argument("--studio", help="name of the studio it is agreed with; all unless said")
        parser.add_argument("--source", default="", help="where the number comes from")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        studio = None
        if options["studio"]:
            studio = Studio.objects.filter(name__iexact=options["studio"]).first()
            if studio is None:
                raise CommandError(f"There is no studio {options['studio']!r}.")
        try:
            rate = set_rate(
                worker_class=options["worker_class"],
                currency=options["currency"],
                micro_per_gpu_hour=options["per_gpu_hour"],
                valid_from=options["valid_from"] or now,
                studio=studio,
                source=options["source"],
                now=now,
            )
        except Refusal as refusal:
            raise CommandError(refusal.sentence) from None
        begin = (options["valid_from"] or now).isoformat()
        self.stdout.write(f"{rate.worker_class}: {decimal(rate.micro_per_gpu_hour)} {rate.currency} from {begin}")
