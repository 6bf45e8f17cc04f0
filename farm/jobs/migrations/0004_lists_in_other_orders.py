from datetime import UTC, datetime

from django.db import migrations, models

from farm.core.tenancy import CURRENT_STUDIO

# As a question of its own the studio is looked up once, not for each of a job's 100,000 tasks.
TENANT_ONCE = f"""
ALTER POLICY tenant_sees_own ON jobs_task
USING (studio_id = (SELECT {CURRENT_STUDIO})) WITH CHECK (studio_id = (SELECT {CURRENT_STUDIO}))
"""


class Migration(migrations.Migration):

    dependencies = [("jobs", "0003_one_check_a_task")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["studio", "priority", "id"], name="jobs_by_priority"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                models.F("studio"),
                models.Case(
                    models.When(deadline__isnull=True, then=models.Value(datetime(9999, 12, 31, tzinfo=UTC))),
                    default=models.F("deadline"),
                ),
                models.F("id"),
                name="jobs_by_deadline",
            ),
        ),
        migrations.RunSQL(TENANT_ONCE, migrations.RunSQL.noop),
    ]
