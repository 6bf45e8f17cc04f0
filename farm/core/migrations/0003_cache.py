"""Where all processes count attempts at signing in: Django's database cache."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("core", "0002_initial")]
    operations = [
        migrations.RunSQL(
            """
            CREATE TABLE core_cache (
                cache_key varchar(255) PRIMARY KEY, value text NOT NULL, expires timestamptz NOT NULL
            );
            CREATE INDEX core_cache_expires ON core_cache (expires);
            """,
            "DROP TABLE core_cache",
        )
    ]
