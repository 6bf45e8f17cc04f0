"""Run the dispatcher."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand

from farm.dispatch.dispatcher import Dispatcher


class Command(BaseCommand):
    help = (
        "Run the dispatcher: claim ready tasks for free slots, and take back what is lost. Several may run; one leads."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        dispatcher = Dispatcher()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: dispatcher.stop.set())
        dispatcher.run()
