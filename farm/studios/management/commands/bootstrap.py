"""Open the first studio with its owner and a project, and print an API token."""

from __future__ import annotations

import argparse
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from farm.core.errors import Refusal
from farm.studios import services
from farm.studios.accounts import first_link
from farm.studios.authentication import Caller
from farm.studios.models import Project
from farm.studios.roles import Scope


class Command(BaseCommand):
    help = (
        "Open a studio with its owner and a project, and print an API token for it. Asked again, it makes a new token."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--studio", default="Demo Studio")
        parser.add_argument("--email", default="owner@example.com")
        parser.add_argument("--currency", default="USD")
        parser.add_argument("--zone", default="UTC")
        parser.add_argument("--project", default="Demo")
        parser.add_argument("--days", type=int, default=90, help="life of the token")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            shown = _bootstrap(options)
        except Refusal as refusal:
            raise CommandError(refusal.sentence) from None
        if options["as_json"]:
            self.stdout.write(json.dumps(shown))
            return
        for name, value in shown.items():
            self.stdout.write(f"{name:8} {value}")
        self.stdout.write("The token is shown this once. Use it with: farmhand login")
        self.stdout.write("The portal's address lets you in once, in a browser, to set a password.")


@transaction.atomic
def _bootstrap(options: dict[str, Any]) -> dict[str, str]:
    studio, user = services.open_studio(
        name=options["studio"],
        currency=options["currency"],
        zone=options["zone"],
        email=options["email"],
        is_operator=True,
    )
    owner = Caller(user, studio, frozenset(Scope), token=None, address=None)
    project = Project.objects.filter(studio=studio, name__iexact=options["project"]).first()
    if project is None:
        project = services.create_project(owner, name=options["project"])
    _, text = services.issue_own_token(
        owner, name="bootstrap", scopes=[str(s) for s in Scope], days=options["days"], now=timezone.now()
    )
    return {
        "studio": studio.name,
        "project": project.name,
        "user": user.email,
        "token": text,
        "portal": first_link(user),
    }
