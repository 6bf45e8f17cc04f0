"""Who was asked into a studio and has not answered yet."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import farm.core.fields
from farm.core.tenancy import tenant_table

ROLES = [("owner", "owner"), ("producer", "producer"), ("artist", "artist"), ("viewer", "viewer")]


class Migration(migrations.Migration):
    dependencies = [("studios", "0002_people")]
    operations = [
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    farm.core.fields.UuidKey(
                        db_default=farm.core.fields.UuidV7(), editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("role", models.CharField(choices=ROLES, max_length=16)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("mails", models.IntegerField(default=1)),
                ("sent_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "invited_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "studio",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="studios.studio"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["studio", "email"],
                        condition=models.Q(accepted_at=None, revoked_at=None),
                        name="one_open_invitation_per_studio_and_mail",
                    )
                ],
            },
        ),
        tenant_table("studios_invitation", grants="SELECT, INSERT, UPDATE"),
    ]
