from django.db import migrations, models

from farm.core.fields import ThisTransaction


class Migration(migrations.Migration):

    dependencies = [("core", "0003_cache")]

    operations = [
        migrations.AddField("event", "revision", models.BigIntegerField(db_default=ThisTransaction())),
        migrations.AddIndex("event", models.Index(fields=["studio_id", "revision"], name="events_since")),
        migrations.AddIndex("event", models.Index(fields=["subject", "id"], name="events_about")),
    ]
