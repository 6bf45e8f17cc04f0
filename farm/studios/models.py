"""Studios and the people in them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower, Now

from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.studios.roles import Role


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Make a user; without a password, one who can only use tokens."""
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save()
        return user


class User(AbstractBaseUser):
    """A person, known by a mail address. Operators run the farm; each of their looks into a studio is audited."""

    id = UuidKey()
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=200, blank=True)
    language = models.CharField(max_length=16, blank=True)  # "en", "zh-CN"; "": as the browser says
    zone = models.CharField(max_length=64, blank=True)  # IANA zone of the times shown; "": the browser's
    is_operator = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())

    USERNAME_FIELD = "email"
    objects: ClassVar[UserManager] = UserManager()


class Studio(models.Model):
    """A customer; everything belongs to exactly one."""

    id = UuidKey()
    name = models.CharField(max_length=200)
    currency = models.CharField(max_length=3)  # ISO 4217; all of the studio's money is in it
    zone = models.CharField(max_length=64, default="UTC")  # IANA zone whose months its invoices follow
    share = models.IntegerField(default=100)  # weight in fair share between studios
    is_paused = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(Lower("name"), name="one_studio_per_name")]


class Membership(models.Model):
    """A user's role in a studio."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE)
    user = models.ForeignKey(User, models.CASCADE)
    role = models.CharField(max_length=16, choices=choices(Role))
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["studio", "user"], name="one_role_per_studio_and_user")]


class Invitation(models.Model):
    """Somebody asked into a studio by mail; unanswered until accepted or taken back."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE)
    email = models.EmailField()  # in lower case
    role = models.CharField(max_length=16, choices=choices(Role))
    digest = models.CharField(max_length=64, unique=True)  # SHA-256 of the token in the mail's link
    invited_by = models.ForeignKey(User, models.SET_NULL, null=True)
    mails = models.IntegerField(default=1)  # sent so far
    sent_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["studio", "email"],
                condition=models.Q(accepted_at=None, revoked_at=None),
                name="one_open_invitation_per_studio_and_mail",
            )
        ]


class Project(models.Model):
    """A show or commission of a studio: its home region, and the regions where machines may run for it."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE)
    name = models.CharField(max_length=200)
    region = models.CharField(max_length=64, default="local")
    machine_regions = ArrayField(models.CharField(max_length=64), default=list)  # empty: the home region alone
    share = models.IntegerField(default=100)  # weight in fair share between the studio's projects
    is_paused = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint("studio", Lower("name"), name="one_project_per_name")]


class ApiToken(models.Model):
    """A credential for programs: scoped, hashed, expiring, shown once. `prefix` is what people recognise it by."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE)
    user = models.ForeignKey(User, models.CASCADE)
    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)  # SHA-256 of the token: random, so no slow hash is needed
    scopes = ArrayField(models.CharField(max_length=32))
    made_with = models.ForeignKey("self", models.SET_NULL, null=True)  # and it ends with that one; null: by a person
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)


class AuditRow(models.Model):
    """Who did what; written in the same transaction as the act, never changed."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    user_id = models.UUIDField(null=True)
    token_id = models.UUIDField(null=True)
    act = models.CharField(max_length=64)  # "job.submitted", "token.revoked", ...
    subject = models.UUIDField(null=True)
    params = models.JSONField(default=dict)
    address = models.GenericIPAddressField(null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["studio", "user_id", "at"], condition=models.Q(act="operator.looked"), name="looks")
        ]
