"""Who may do what: scopes, and which of them each role has. Pure."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """What a token may be allowed to do."""

    SCENES_READ = "scenes:read"
    SCENES_WRITE = "scenes:write"
    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    BILLING_READ = "billing:read"
    BILLING_WRITE = "billing:write"
    STUDIO_READ = "studio:read"
    STUDIO_WRITE = "studio:write"


class Role(StrEnum):
    """A member's role in a studio."""

    OWNER = "owner"
    PRODUCER = "producer"
    ARTIST = "artist"
    VIEWER = "viewer"


_READ = frozenset({Scope.SCENES_READ, Scope.JOBS_READ, Scope.STUDIO_READ})
ROLE_SCOPES: dict[Role, frozenset[Scope]] = {
    Role.VIEWER: _READ,
    Role.ARTIST: _READ | {Scope.SCENES_WRITE, Scope.JOBS_WRITE},
    Role.PRODUCER: _READ | {Scope.SCENES_WRITE, Scope.JOBS_WRITE, Scope.BILLING_READ, Scope.BILLING_WRITE},
    Role.OWNER: frozenset(Scope),
}


def effective_scopes(role: Role, granted: list[str]) -> frozenset[Scope]:
    """Give what a token may do now: what it was granted, as far as its owner's role still has it."""
    return frozenset(s for s in ROLE_SCOPES[role] if str(s) in granted)
