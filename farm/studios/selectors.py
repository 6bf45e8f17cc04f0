"""What there is to know of studios, without changing anything."""

from __future__ import annotations

from uuid import UUID

from django.db.models import CharField, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, NullIf

from farm.core.errors import NotFound
from farm.studios.authentication import Caller
from farm.studios.models import ApiToken, Project, User
from farm.studios.roles import Scope


def project_of(project_id: UUID) -> Project:
    """
    Find one of the caller's projects, with its studio.

    :raises NotFound: there is none
    """
    project = Project.objects.select_related("studio").filter(pk=project_id).first()
    if project is None:
        raise NotFound(what="project", id=project_id, field="project")
    return project


def user_of(email: str) -> User | None:
    """
    Find somebody by mail address, in any case.

    A database takes some foreign letters for others when it compares without case: here they are not the same.
    """
    alike = User.objects.filter(email__iexact=email)
    return next((user for user in alike if user.email.lower() == email.lower()), None)


def called(person: str = "") -> Combinable:
    """Give how somebody is called: by name, else by mail address; of somebody who is not there, nothing."""
    name, email = F(f"{person}name"), F(f"{person}email")
    return Coalesce(NullIf(name, Value("")), email, Value(""), output_field=CharField())


def tokens_seen_by(caller: Caller) -> QuerySet[ApiToken]:
    """Give the caller's own tokens, or all of the studio for who runs it; each names its owner, while a member."""
    owner = User.objects.filter(pk=OuterRef("user_id")).annotate(called=called()).values("called")
    rows = ApiToken.objects.annotate(owner=Coalesce(Subquery(owner), Value("")))
    return rows if Scope.STUDIO_WRITE in caller.scopes else rows.filter(user_id=caller.user.id)
