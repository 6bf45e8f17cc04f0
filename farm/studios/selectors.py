"""What there is to know of studios, without changing anything."""

from __future__ import annotations

from uuid import UUID

from farm.core.errors import NotFound
from farm.studios.models import Project


def project_of(project_id: UUID) -> Project:
    """
    Find one of the caller's projects, with its studio.

    :raises NotFound: there is none
    """
    project = Project.objects.select_related("studio").filter(pk=project_id).first()
    if project is None:
        raise NotFound(what="project", id=project_id, field="project")
    return project
