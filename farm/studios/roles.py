"""Who may do what: scopes, and which of them each role has. Pure."""

from __future__ import annotations

from collections.abc import Collection
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
    ACCOUNT_WRITE = "account:write"  # one's own: profile and tokens


class Role(StrEnum):
    """A member's role in a studio."""

    OWNER = "owner"
    PRODUCER = "producer"
    ARTIST = "artist"
    VIEWER = "viewer"


_VIEWER = frozenset({Scope.SCENES_READ, Scope.JOBS_READ, Scope.STUDIO_READ, Scope.ACCOUNT_WRITE})
ROLE_SCOPES: dict[Role, frozenset[Scope]] = {
    Role.VIEWER: _VIEWER,
    Role.ARTIST: _VIEWER | {Scope.SCENES_WRITE, Scope.JOBS_WRITE},
    Role.PRODUCER: _VIEWER | {Scope.SCENES_WRITE, Scope.JOBS_WRITE, Scope.BILLING_READ, Scope.BILLING_WRITE},
    Role.OWNER: frozenset(Scope),
}

# Of an operator who looks into a studio: everything is seen, nothing changed.
LOOK_SCOPES = frozenset({Scope.SCENES_READ, Scope.JOBS_READ, Scope.BILLING_READ, Scope.STUDIO_READ})


def beyond(role: Role, scopes: Collection[Scope]) -> frozenset[Scope]:
    """Give what a role may do in a studio that these scopes may not; of one's own account, each may do what they do."""
    return ROLE_SCOPES[role] - set(scopes) - {Scope.ACCOUNT_WRITE}


def effective_scopes(role: Role, granted: list[str]) -> frozenset[Scope]:
    """Give what a token may do now: what it was granted, as far as its owner's role still has it."""
    return frozenset(s for s in ROLE_SCOPES[role] if str(s) in granted)
