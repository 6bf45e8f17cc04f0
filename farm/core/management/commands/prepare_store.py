"""Set what the store's bucket needs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from farm.core.errors import Refusal
from farm.core.s3 import S3Store
from farm.core.storage import store


class Command(BaseCommand):
    help = (
        "Set the bucket of FARM_STORAGE_URL: whence browsers may use it, nothing public, encrypted, unfinished uploads "
        "cleared. May be repeated. Needs more rights than the farm has; run it with an administrator's credentials."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        here = store()
        if not isinstance(here, S3Store):
            self.stdout.write("The farm's store is a folder; nothing needs to be set.")
            return
        try:
            done = here.prepare([settings.FARM_URL])
        except Refusal as refusal:
            raise CommandError(str(refusal)) from refusal
        self.stdout.write("\n".join(done))
