"""Recompute the books from the facts, and say whether they agree."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from farm.billing.recompute import check_books


class Command(BaseCommand):
    help = "Recompute ledger and budgets from the usage facts. Ends with 1 if anything differs by one micro-unit."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--studio", type=UUID, help="id of one studio; all unless said")
        parser.add_argument("--stale-hours", type=float, default=24.0, help="name holds that are open for longer")

    def handle(self, *args: Any, **options: Any) -> None:
        stale_after = timedelta(hours=options["stale_hours"])
        books = check_books(now=timezone.now(), stale_after=stale_after, studio=options["studio"])
        for note in books.notes:
            self.stdout.write(f"note: {note}")
        for finding in books.findings:
            self.stderr.write(f"wrong: {finding}")
        self.stdout.write(
            f"{books.facts} facts, {books.credits} credits, {books.groups} ledger groups: "
            f"difference {books.difference_micro} micro-units"
        )
        if not books.are_right:
            raise CommandError(f"{len(books.findings)} things are wrong with the books")
