"""
Row-level security: migration operations for tenant tables.

Three roles. The owner migrates. `farm` is what all processes log in as and sees every row. `farm_tenant` is what a
person's request becomes, and sees only rows of the studio named by the setting `farm.studio` of its transaction.
"""

from __future__ import annotations

from django.db import migrations

CURRENT_STUDIO = "nullif(current_setting('farm.studio', true), '')::uuid"

CREATE_ROLES = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'farm') THEN
        CREATE ROLE farm LOGIN NOSUPERUSER NOBYPASSRLS;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'farm_tenant') THEN
        CREATE ROLE farm_tenant NOLOGIN NOSUPERUSER NOBYPASSRLS;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this cluster is being migrated at the same moment
END $$;
DO $$
BEGIN
    IF NOT pg_has_role('farm', 'farm_tenant', 'MEMBER') THEN
        GRANT farm_tenant TO farm;
    END IF;
END $$;
GRANT USAGE ON SCHEMA public TO farm, farm_tenant;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO farm;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO farm, farm_tenant;
"""


def create_roles() -> migrations.RunSQL:
    """Make the roles `farm` and `farm_tenant`; the owner needs CREATEROLE, or an administrator makes them first."""
    return migrations.RunSQL(CREATE_ROLES, migrations.RunSQL.noop)


def tenant_table(
    table: str, *, condition: str | None = None, grants: str = "SELECT, INSERT, UPDATE, DELETE"
) -> migrations.RunSQL:
    """
    Put a table under row-level security.

    `condition` says which rows the current studio may see (its `studio_id` unless said); `grants` what a person's
    request may do at all.
    """
    check = condition or f"studio_id = {CURRENT_STUDIO}"
    return migrations.RunSQL(
        f"""
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
        ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
        CREATE POLICY farm_sees_all ON {table} TO farm USING (true) WITH CHECK (true);
        CREATE POLICY tenant_sees_own ON {table} TO farm_tenant USING ({check}) WITH CHECK ({check});
        GRANT {grants} ON {table} TO farm_tenant;
        """,
        migrations.RunSQL.noop,
    )


def shared_table(table: str, *, grants: str = "SELECT") -> migrations.RunSQL:
    """Let a person's request use a table that belongs to no studio."""
    return migrations.RunSQL(f"GRANT {grants} ON {table} TO farm_tenant;", migrations.RunSQL.noop)


def append_only(table: str) -> migrations.RunSQL:
    """Refuse UPDATE and DELETE of a table's rows to everybody, its owner included."""
    return migrations.RunSQL(
        f"""
        CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $f$
        BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END $f$;
        CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_change();
        REVOKE UPDATE, DELETE ON {table} FROM farm, farm_tenant;
        """,
        migrations.RunSQL.noop,
    )
