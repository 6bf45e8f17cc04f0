"""What the database itself promises of studios, read from its catalogue and tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction

from farm.studios.tenancy import become_tenant
from tests.api import leave_tenant, raw_rows
from tests.farm import Customer, dispatch, open_customer, start_worker, submit

pytestmark = pytest.mark.django_db

# Belong to no studio: people's requests read them, of some only what the columns granted say.
SHARED = {
    "dispatch_limit",
    "fleet_farm",
    "fleet_fleet",
    "fleet_fleetdecision",
    "fleet_pool",
    "fleet_seenworker",
    "fleet_worker",
}
# Belong to a studio, named by another column than studio_id.
ALSO_TENANT = {"studios_studio", "studios_user"}


def tables_with_studio() -> set[str]:
    columns = raw_rows(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'studio_id'"
    )
    return {name for (name,) in columns}


def tenant_tables() -> set[str]:
    return (tables_with_studio() | ALSO_TENANT) - SHARED


@contextmanager
def tenant(studio: UUID | str) -> Iterator[None]:
    """Be a studio's request, in a transaction that is rolled back."""
    with transaction.atomic():
        become_tenant(studio)
        yield
        transaction.set_rollback(True)
    leave_tenant()


@pytest.fixture
def ours(now: datetime) -> Customer:
    return busy_customer(now)


@pytest.fixture
def theirs(now: datetime) -> Customer:
    return busy_customer(now)


def busy_customer(now: datetime) -> Customer:
    """A studio with a job that a worker ended."""
    customer = open_customer()
    submit(customer, frames="1", now=now)
    worker = start_worker(now=now)
    assert dispatch(now=now) == 1
    worker.sync(now=now)
    worker.finish_all(now=now)
    return customer


class TestTenantTables:
    def test_there_are_some(self) -> None:
        assert {"jobs_task", "billing_ledgerentry", "scenes_blob", "dispatch_output"} <= tenant_tables()

    def test_each_forces_row_level_security_on_its_owner_too(self) -> None:
        secured = raw_rows("SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity")

        assert tenant_tables() - {name for (name,) in secured} == set()

    def test_each_has_both_policies_and_no_other(self) -> None:
        policies: dict[str, set[tuple[str, str, str, bool]]] = {}
        for table, name, roles, verb, checked in raw_rows(
            "SELECT tablename, policyname, array_to_string(roles, ','), cmd, with_check IS NOT NULL FROM pg_policies"
        ):
            policies.setdefault(table, set()).add((name, roles, verb, checked))

        assert policies.keys() == tenant_tables()
        for table, found in policies.items():
            expected = {("farm_sees_all", "farm", "ALL", True), ("tenant_sees_own", "farm_tenant", "ALL", True)}
            assert found == expected, table

    def test_the_tenant_policy_of_each_names_the_studio_of_the_transaction(self) -> None:
        for table, using, check in raw_rows(
            "SELECT tablename, qual, with_check FROM pg_policies WHERE policyname = 'tenant_sees_own'"
        ):
            assert "current_setting('farm.studio'::text, true)" in using, table
            assert using == check, table


class TestRoles:
    def test_none_of_them_passes_by_row_level_security(self) -> None:
        roles = raw_rows("SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE starts_with(rolname, 'farm')")

        assert {"farm", "farm_tenant"} <= {name for name, _, _ in roles}
        assert [name for name, is_super, passes in roles if is_super or passes] == []

    def test_the_processes_own_nothing_and_are_not_the_owner(self) -> None:
        assert raw_rows("SELECT current_user") == [("farm",)]
        owners = raw_rows("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'")

        assert ("farm",) not in owners
        assert raw_rows("SELECT pg_has_role('farm', %s, 'MEMBER')", [owners[0][0]]) == [(False,)]

    def test_nobody_logs_in_as_a_tenant_and_a_tenant_is_member_of_nothing(self) -> None:
        assert raw_rows("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'farm_tenant'") == [(False,)]
        assert raw_rows("SELECT count(*) FROM pg_auth_members WHERE member = 'farm_tenant'::regrole") == [(0,)]

    def test_a_tenant_may_only_read_what_belongs_to_no_studio_and_of_most_tables_nothing(self) -> None:
        allowed = raw_rows(
            """
            SELECT table_name, array_agg(DISTINCT privilege_type::text) FROM information_schema.column_privileges
             WHERE grantee = 'farm_tenant' AND table_schema = 'public' GROUP BY 1
            """
        )
        shared = {table: set(verbs) for table, verbs in allowed if table not in tenant_tables()}

        assert shared == {table: {"SELECT"} for table in SHARED}

    def test_a_tenant_cannot_read_whose_work_a_machine_does_nor_a_secret(self) -> None:
        readable = raw_rows(
            """
            SELECT table_name, column_name FROM information_schema.column_privileges
             WHERE grantee = 'farm_tenant' AND table_name IN ('fleet_worker', 'studios_user')
            """
        )
        hidden = {"studio_id", "secret_digest", "token_digest", "password", "machine_id", "slot_steps"}

        assert {column for _, column in readable} & hidden == set()

    def test_a_tenant_may_delete_no_money_and_no_audit_row(self) -> None:
        deletable = raw_rows(
            "SELECT table_name FROM information_schema.table_privileges"
            " WHERE grantee = 'farm_tenant' AND privilege_type IN ('DELETE', 'TRUNCATE')"
        )

        assert [t for (t,) in deletable if t.startswith(("billing_", "studios_", "core_"))] == []


class TestBecomeTenant:
    def test_it_sees_its_own_rows_and_no_other_studio_s_in_any_table(self, ours: Customer, theirs: Customer) -> None:
        seen = {}
        for table in sorted(tables_with_studio() - SHARED):
            with tenant(ours.studio.id):
                try:
                    with transaction.atomic():
                        rows = raw_rows(f"SELECT studio_id, count(*) FROM {table} GROUP BY 1")
                except DatabaseError:
                    rows = []  # not granted at all
            seen[table] = rows

        strangers = {table: rows for table, rows in seen.items() if {s for s, _ in rows} - {ours.studio.id}}
        # The price list, and the policy, of all studios have none.
        assert {t: [s for s, _ in rows if s] for t, rows in strangers.items()} == {
            t: [] for t in strangers if t in {"billing_rate", "billing_policy"}
        }
        assert [t for t in ("jobs_task", "dispatch_attempt", "billing_usagefact") if not seen[t]] == []

    def test_of_no_studio_it_sees_nothing(self, ours: Customer) -> None:
        with tenant(""):
            for table in ("jobs_job", "jobs_task", "studios_project", "studios_user", "studios_studio"):
                assert raw_rows(f"SELECT count(id) FROM {table}") == [(0,)], table

    def test_it_cannot_write_another_studio_s_row(self, ours: Customer, theirs: Customer) -> None:
        with (
            tenant(ours.studio.id),
            pytest.raises(DatabaseError, match="row-level security"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute("UPDATE studios_project SET studio_id = %s", [theirs.studio.id])

    def test_it_cannot_touch_another_studio_s_row(self, ours: Customer, theirs: Customer) -> None:
        with tenant(ours.studio.id), connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_job SET priority = 0 WHERE studio_id = %s", [theirs.studio.id])
            assert cursor.rowcount == 0

    def test_it_ends_with_its_transaction(self, ours: Customer) -> None:
        with tenant(ours.studio.id):
            assert raw_rows("SELECT current_user") == [("farm_tenant",)]

        assert raw_rows("SELECT current_user, current_setting('farm.studio', true)") == [("farm", "")]
