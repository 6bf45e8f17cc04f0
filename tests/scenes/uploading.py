"""A studio with a scene, and a client that uploads as people do: by the public API and signed requests alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.test import Client

from farm.scenes.manifest import Manifest, read_manifest
from farm.scenes.models import Scene, SceneVersion
from farm.scenes.services import create_scene, create_version
from farm.studios.authentication import Caller
from farm.studios.models import Project, Studio
from farm.studios.roles import Scope
from farm.studios.services import issue_token, open_studio
from workers.protocol import PART_SIZE, digest_of_parts


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def parts_of(content: bytes) -> list[bytes]:
    return [content[at : at + PART_SIZE] for at in range(0, len(content), PART_SIZE)] or [b""]


def digest_of(content: bytes) -> str:
    return digest_of_parts(sha(part) for part in parts_of(content))


def line(path: str, content: bytes, **more: Any) -> dict[str, Any]:
    """One file of a manifest, as it travels."""
    return {"path": path, "digest": digest_of(content), "size": len(content), **more}


def manifest_of(files: Mapping[str, bytes], *, entry: str = "") -> Manifest:
    return read_manifest(entry or next(iter(files)), [line(path, content) for path, content in files.items()])


@dataclass(frozen=True)
class Tenant:
    """A studio, one of its people, and what they made so far."""

    caller: Caller
    studio: Studio
    project: Project
    scene: Scene
    token: str


def open_tenant(name: str) -> Tenant:
    email = f"{name.replace(' ', '.')}@example.com"
    studio, user = open_studio(name=name, currency="USD", zone="UTC", email=email, is_operator=False)
    caller = Caller(user, studio, frozenset(Scope), None, None)
    project = Project.objects.create(studio=studio, name="Show")
    scene = create_scene(caller, project=project, name="Shot 1")
    _, token = issue_token(studio=studio, user=user, name="t", scopes=list(Scope), days=1, now=datetime.now(UTC))
    return Tenant(caller, studio, project, scene, token)


def begin(tenant: Tenant, files: Mapping[str, bytes], *, now: datetime) -> SceneVersion:
    version, _ = create_version(tenant.caller, tenant.scene, manifest_of(files), now=now)
    return version


class Api:
    """The public API, spoken by one token."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.client = Client()

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self.ask("POST", path, json.dumps(body), headers)

    def ask(self, method: str, path: str, body: str = "", headers: Mapping[str, str] | None = None) -> Any:
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        try:
            return self.client.generic(method, f"/api/v1/{path}", body, content_type="application/json", headers=sent)
        finally:
            if connection.in_atomic_block:  # the request's transaction lies in the test's, which is nobody's tenant
                with connection.cursor() as cursor:
                    cursor.execute("RESET ROLE; SELECT set_config('farm.studio', '', true)")

    def put(self, request: Mapping[str, Any], content: bytes) -> Any:
        assert request["method"] == "PUT"
        return self.client.put(request["url"], content, content_type=request["headers"]["Content-Type"])

    def send(self, version: str, contents: Sequence[bytes], *, but: Sequence[int] = ()) -> int:
        """Send files' parts, all but those numbered; give how many were sent."""
        wishes = [
            (content, {"digest": digest_of(content), "number": number, "sha256": sha(part)}, part)
            for content in contents
            for number, part in enumerate(parts_of(content))
            if number not in but
        ]
        granted = self.post(f"scene-versions/{version}/parts", {"parts": [wish for _, wish, _ in wishes]})
        assert granted.status_code == 200, granted.content
        sent = 0
        for (_, _, part), grant in zip(wishes, granted.json()["parts"], strict=True):
            if grant["request"]:
                assert self.put(grant["request"], part).status_code == 200
                sent += 1
        return sent
