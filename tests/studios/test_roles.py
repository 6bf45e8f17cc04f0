"""Which role may do what: read as a table, so that a change is seen."""

from __future__ import annotations

import pytest

from farm.studios.roles import ROLE_SCOPES, Role, Scope, effective_scopes

READ = {"scenes:read", "jobs:read", "studio:read"}
WORK = READ | {"scenes:write", "jobs:write"}
MONEY = WORK | {"billing:read", "billing:write"}


class TestRoleScopes:
    @pytest.mark.parametrize(
        ("role", "scopes"),
        [("viewer", READ), ("artist", WORK), ("producer", MONEY), ("owner", MONEY | {"studio:write"})],
    )
    def test_each_role_has_these(self, role: str, scopes: set[str]) -> None:
        assert ROLE_SCOPES[Role(role)] == scopes

    def test_every_role_and_every_scope_is_in_the_table(self) -> None:
        assert ROLE_SCOPES.keys() == set(Role)
        assert set().union(*ROLE_SCOPES.values()) == set(Scope)


class TestEffectiveScopes:
    def test_a_scope_that_no_longer_exists_is_worth_nothing(self) -> None:
        assert effective_scopes(Role.OWNER, ["jobs:read", "farm:own"]) == {Scope.JOBS_READ}

    def test_of_nothing_granted_nothing_comes(self) -> None:
        assert effective_scopes(Role.OWNER, []) == frozenset()
