"""The statuses of a movie, and how they change."""

from __future__ import annotations

from enum import StrEnum

from farm.core.moves import Moves


class MovieStatus(StrEnum):
    """How much of a job its movie shows."""

    GROWING = "growing"  # frames are missing, or newer ones are not in it yet
    COMPLETE = "complete"  # it shows every frame of its step


MOVIE_MOVES: Moves[MovieStatus] = {
    MovieStatus.GROWING: {MovieStatus.COMPLETE},
    MovieStatus.COMPLETE: {MovieStatus.GROWING},  # frames are rendered again
}


class ArchiveRole(StrEnum):
    """Which files of a job can be taken away together."""

    RENDER = "render"
    PROXY = "proxy"
