"""People's own language and zone; what a studio's owner may change of its people."""

from django.db import migrations, models

from farm.core.tenancy import shared_table


class Migration(migrations.Migration):
    dependencies = [("studios", "0001_initial"), ("core", "0003_cache")]
    operations = [
        migrations.AddField("user", "language", models.CharField(blank=True, max_length=16)),
        migrations.AddField("user", "zone", models.CharField(blank=True, max_length=64)),
        # The policies of these tables stay; a person's request gets at more of their columns.
        shared_table("studios_user", grants="SELECT (language, zone, last_login), UPDATE (name, language, zone)"),
        shared_table("studios_studio", grants="UPDATE (name, zone)"),
        shared_table("studios_membership", grants="UPDATE (role)"),
    ]
