"""Tokens that were made with a token end with it; an operator's looks are found in the audit log."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("studios", "0003_invitations")]
    operations = [
        migrations.AddField(
            "apitoken",
            "made_with",
            models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, to="studios.apitoken"
            ),
        ),
        migrations.AddIndex(
            "auditrow",
            models.Index(
                fields=["studio", "user_id", "at"], condition=models.Q(act="operator.looked"), name="looks"
            ),
        ),
    ]
