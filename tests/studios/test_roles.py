"""Which role may do what: read as a table, so that a change is seen."""

from __future__ import annotations

import pytest

from farm.studios.roles import LOOK_SCOPES, ROLE_SCOPES, Role, Scope, beyond, effective_scopes

READ = {"scenes:read", "jobs:read", "studio:read", "account:write"}
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


class TestBeyond:
    @pytest.mark.parametrize("role", list(Role))
    def test_an_owner_lacks_nothing_of_any_role(self, role: Role) -> None:
        assert beyond(role, ROLE_SCOPES[Role.OWNER]) == frozenset()

    @pytest.mark.parametrize("role", list(Role))
    def test_whoever_may_nothing_lacks_all_but_what_is_everybody_s_own(self, role: Role) -> None:
        assert beyond(role, []) == ROLE_SCOPES[role] - {Scope.ACCOUNT_WRITE}


class TestLookScopes:
    def test_it_is_everything_that_only_reads(self) -> None:
        assert {scope for scope in Scope if scope.endswith(":read")} == LOOK_SCOPES
