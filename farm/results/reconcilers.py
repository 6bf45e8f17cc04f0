"""What must become true of results: each job's movie shows what has been rendered."""

from __future__ import annotations

import logging
from uuid import UUID

from celery import shared_task
from django.utils import timezone

from farm.results import services
from farm.results.selectors import movies_to_grow

logger = logging.getLogger(__name__)


@shared_task(name="farm.results.reconcilers.grow_movies")
def grow_movies() -> None:
    """Ask for each movie whose job has something new; when nothing has, this is one query."""
    now = timezone.now()
    wanted = movies_to_grow(now=now)
    for movie in services.ask_for(wanted, now=now) if wanted else []:
        grow_movie.delay(str(movie))


@shared_task(name="farm.results.reconcilers.grow_movie")
def grow_movie(movie: str) -> None:
    """Encode and join for at most a minute; what is left is asked for again at once."""
    if services.grow_movie(UUID(movie), watch=services.Watch(), now=timezone.now()):
        grow_movie.delay(movie)
