"""Let a new policy be in force."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from farm.billing.pricing import Policy, WhenRefused
from farm.billing.services import set_policy
from farm.studios.models import Studio


class Command(BaseCommand):
    help = "Say who pays for what from now on, for all studios or one; what is not named is as in the default policy."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        default = Policy()
        parser.add_argument("--studio", help="name of the studio it is agreed with; all unless said")
        parser.add_argument("--scene-error-cap-seconds", type=int, default=default.scene_error_cap_seconds)
        parser.add_argument("--free-setup-seconds", type=int, default=default.free_setup_seconds)
        parser.add_argument("--cancel-grace-seconds", type=int, default=default.cancel_grace_seconds)
        parser.add_argument("--free-scout-gpu-seconds", type=int, default=default.free_scout_gpu_seconds)
        parser.add_argument("--when-refused", choices=[str(w) for w in WhenRefused], default=str(default.when_refused))

    def handle(self, *args: Any, **options: Any) -> None:
        studio = None
        if options["studio"]:
            studio = Studio.objects.filter(name__iexact=options["studio"]).first()
            if studio is None:
                raise CommandError(f"There is no studio {options['studio']!r}.")
        policy = Policy.from_json(options)
        set_policy(policy, studio=studio, now=timezone.now())
        for name, value in policy.as_json().items():
            self.stdout.write(f"{name}: {value}")
