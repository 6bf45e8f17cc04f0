"""What the database's own catalogue says of billing's tables, and what a tenant sees of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction

from farm.billing.models import Budget, CostObject, Credit, Hold, LedgerEntry, LedgerGroup, QuotedRate, Rate, UsageFact
from farm.billing.pricing import BudgetScope
from farm.billing.services import forgive_scouts, set_budget, set_rate
from farm.studios.authentication import Caller
from farm.studios.roles import Scope
from farm.studios.tenancy import become_tenant
from tests.billing.shop import GPU, NOW, RATE, Shop, make_shop

TABLES = sorted(model._meta.db_table for model in apps.get_app_config("billing").get_models())
# What a person's request may do beyond reading: with whole tables, and with columns.
MAY_INSERT = {"billing_costobject", "billing_quotedrate", "billing_budget"}
MAY_UPDATE = {
    "billing_budget": {"cap_micro", "told"},
    "billing_costobject": {"sequence", "shot", "tags"},
}
APPEND_ONLY = {
    "billing_credit",
    "billing_ledgerentry",
    "billing_ledgergroup",
    "billing_policy",
    "billing_quotedrate",
    "billing_usagefact",
}


def having(condition: str) -> set[str]:
    """Give billing's tables for which a condition on `pg_class` holds."""
    return catalogue(f"SELECT relname FROM pg_class WHERE relname = ANY(%s) AND {condition}")


def catalogue(sql: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(sql, [TABLES])
        return {row[0] for row in cursor.fetchall()}


@pytest.mark.usefixtures("db")
class TestCatalogue:
    def test_every_table_has_row_level_security_that_binds_its_owner_too(self) -> None:
        assert having("relrowsecurity AND relforcerowsecurity") == set(TABLES)

    @pytest.mark.parametrize("role", ["farm", "farm_tenant"])
    def test_every_table_has_a_policy_for_each_role(self, role: str) -> None:
        found = catalogue(f"SELECT tablename FROM pg_policies WHERE tablename = ANY(%s) AND roles = '{{{role}}}'")

        assert found == set(TABLES)

    def test_the_farm_sees_all_and_a_tenant_its_own(self) -> None:
        farm = catalogue("SELECT qual FROM pg_policies WHERE tablename = ANY(%s) AND roles = '{farm}'")
        tenant = catalogue("SELECT qual FROM pg_policies WHERE tablename = ANY(%s) AND roles = '{farm_tenant}'")

        assert farm == {"true"}
        assert all("farm.studio" in condition for condition in tenant)

    @pytest.mark.parametrize(
        ("right", "tables"), [("SELECT", set(TABLES)), ("INSERT", MAY_INSERT), ("UPDATE", set()), ("DELETE", set())]
    )
    def test_what_a_tenant_may_do_with_whole_tables(self, right: str, tables: set[str]) -> None:
        assert having(f"has_table_privilege('farm_tenant', oid, '{right}')") == tables

    def test_what_a_tenant_may_change(self) -> None:
        granted = catalogue(
            "SELECT table_name || '.' || column_name FROM information_schema.column_privileges"
            " WHERE table_name = ANY(%s) AND grantee = 'farm_tenant' AND privilege_type = 'UPDATE'"
        )

        assert granted == {f"{table}.{column}" for table, columns in MAY_UPDATE.items() for column in columns}

    @pytest.mark.parametrize("right", ["UPDATE", "DELETE"])
    def test_what_is_append_only_even_for_the_farm(self, right: str) -> None:
        assert having(f"has_table_privilege('farm', oid, '{right}')").isdisjoint(APPEND_ONLY)

    def test_append_only_binds_the_owner_too(self) -> None:
        guarded = catalogue(
            "SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " WHERE c.relname = ANY(%s) AND t.tgname IN ('append_only', 'rate_only_closes') AND t.tgenabled = 'O'"
        )

        assert guarded == APPEND_ONLY | {"billing_rate"}


@contextmanager
def as_tenant_of(shop: Shop) -> Iterator[None]:
    """For the block: be what a person's request becomes."""
    with transaction.atomic():
        become_tenant(shop.studio.id)
        yield
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('role', 'none', true), set_config('farm.studio', '', true)")


class TestTenant:
    def test_it_sees_no_row_of_another_studio(self, shop: Shop) -> None:
        other = make_shop()
        for each in (shop, other):
            rate: dict[str, Any] = {"worker_class": GPU, "currency": "USD", "micro_per_gpu_hour": RATE}
            set_rate(**rate, valid_from=NOW, studio=each.studio, now=NOW)
            job = each.open()
            each.render(job, scout=True)
            forgive_scouts(job.id, now=NOW)

        with as_tenant_of(shop):
            seen = {
                model._meta.db_table: set(model._default_manager.values_list("studio_id", flat=True))
                for model in (Rate, CostObject, QuotedRate, Budget, Hold, UsageFact, Credit, LedgerGroup, LedgerEntry)
            }

        assert seen.pop("billing_rate") == {None, shop.studio.id}
        assert set(map(frozenset, seen.values())) == {frozenset({shop.studio.id})}

    def test_it_opens_a_cost_object_with_its_rates_and_budgets(self, shop: Shop) -> None:
        with as_tenant_of(shop):
            job = shop.open(budget=7)

        assert job.quoted_rates.count() == 2
        assert shop.budget(BudgetScope.JOB, job.id).cap_micro == 7

    def test_it_sets_a_cap(self, shop: Shop) -> None:
        caller = Caller(shop.artist, shop.studio, frozenset(Scope), None, None)

        with as_tenant_of(shop):
            set_budget(caller, scope=BudgetScope.STUDIO, subject=None, month=None, cap_micro=3, now=NOW)

        assert shop.budget(BudgetScope.STUDIO).cap_micro == 3

    @pytest.mark.parametrize(
        "sql",
        [
            "UPDATE billing_budget SET spent_micro = 0",
            "UPDATE billing_hold SET amount_micro = 0",
            "UPDATE billing_rate SET micro_per_gpu_hour = 0",
            "DELETE FROM billing_usagefact",
            "INSERT INTO billing_credit DEFAULT VALUES",
        ],
    )
    def test_it_moves_no_money(self, shop: Shop, sql: str) -> None:
        with pytest.raises(DatabaseError, match="permission denied"), as_tenant_of(shop), connection.cursor() as cursor:
            cursor.execute(sql)


@pytest.mark.usefixtures("db")
class TestSeeds:
    def test_the_default_price_list_is_complete_in_every_currency(self) -> None:
        currencies = set(Rate.objects.values_list("currency", flat=True))
        by_class = {
            name: set(Rate.objects.filter(worker_class=name).values_list("currency", flat=True))
            for name in set(Rate.objects.values_list("worker_class", flat=True))
        }

        assert {"USD", "EUR", "GBP", "JPY"} <= currencies
        assert {"cpu", "NVIDIA L4", "NVIDIA L40S", "Tesla T4", "NVIDIA H100 80GB HBM3"} <= by_class.keys()
        assert all(found == currencies for found in by_class.values())

    def test_a_price_is_stored_to_the_micro_unit(self) -> None:
        rate = Rate.objects.get(worker_class="NVIDIA A10G", currency="GBP")

        assert (rate.micro_per_gpu_hour, rate.studio, rate.valid.upper) == (805_000, None, None)
        assert "price list" in rate.source
