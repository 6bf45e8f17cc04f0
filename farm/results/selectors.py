"""What there is to know of a job's movie and of the quality of its frames, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from typing import Any
from uuid import UUID

from django.db import connection

from farm.core.revisions import OLDEST
from farm.dispatch.models import Output
from farm.jobs.models import Job, Step, Task
from farm.jobs.moves import JobStatus, TaskStatus
from farm.results.models import Movie
from farm.results.quality import Finding, Picture, check
from farm.results.timeline import Proxy, Segment, Still, cut, lay_out, odd_ones, picture_size
from workers.protocol import OutputRole

DEFAULT_RATE = Fraction(24)
MOST_PER_SECOND = 1000
LARGEST_DENOMINATOR = 100_000
ASKED_FOR = timedelta(seconds=90)  # longer than any message may run: after that it was lost
LATE = timedelta(days=1)  # how long after its end a job without a movie is still looked at

# One probe of an index a job: has a task succeeded since the movie's transaction looked?
_WANTED = """
SELECT j.id, j.studio_id, m.id
  FROM jobs_job j LEFT JOIN results_movie m ON m.job_id = j.id
 WHERE j.purpose = 'render'
   AND CASE
       WHEN m.id IS NULL THEN
           (j.status IN ('active', 'suspended') OR j.ended_at > %(late)s)
           AND EXISTS (SELECT FROM dispatch_output o WHERE o.job_id = j.id AND o.role = 'proxy' AND o.is_current)
       WHEN m.asked_at > %(lost)s THEN false
       ELSE m.seen_status <> j.status OR m.check_at <= %(now)s OR m.sweep_at <= %(now)s
            OR EXISTS (SELECT FROM jobs_task t
                        WHERE t.job_id = j.id AND t.revision >= m.seen AND t.status = 'succeeded')
       END
 ORDER BY m.asked_at NULLS FIRST, j.id
 LIMIT %(limit)s
"""


@dataclass(frozen=True)
class Wanted:
    """A job whose movie has something to be done; `movie` is None if it has none yet."""

    job: UUID
    studio: UUID
    movie: UUID | None


def movies_to_grow(*, now: datetime, limit: int = 200) -> list[Wanted]:
    """Find the jobs with something new for their movies. One query."""
    params: dict[str, Any] = {"now": now, "late": now - LATE, "lost": now - ASKED_FOR, "limit": limit}
    with connection.cursor() as cursor:
        cursor.execute(_WANTED, params)
        return [Wanted(*row) for row in cursor.fetchall()]


@dataclass(frozen=True)
class Look:
    """What was found of a job at one moment. Whatever is committed later has a transaction of at least `seen`."""

    seen: int
    status: JobStatus
    proxies: Mapping[int, Proxy]
    unfinished: int  # frames whose tasks have not succeeded, or are rendered again

    @property
    def is_quiet(self) -> bool:
        """Say whether nothing more is coming for the time being."""
        return self.status is not JobStatus.ACTIVE


def look(movie: Movie) -> Look:
    """Look at the job of a movie whose step is known."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {OLDEST}")
        seen: int = cursor.fetchone()[0]
    status = JobStatus(Job.objects.values_list("status", flat=True).get(pk=movie.job_id))
    if movie.step_id is None:
        return Look(seen, status, {}, 0)
    tasks = {task: (frame, state) for frame, task, state in _tasks_of(movie.step_id)}
    proxies = {
        tasks[task][0]: proxy for task, proxy in _proxies_of(movie.job_id, movie.step_id).items() if task in tasks
    }
    unfinished = sum(state != TaskStatus.SUCCEEDED for _, state in tasks.values())
    return Look(seen, status, proxies, unfinished)


def _tasks_of(step: UUID) -> list[tuple[int, UUID, str]]:
    """Give one task of each frame, in order of frame: the first, should several cameras or layers share it."""
    rows = Task.objects.filter(step=step, frame__isnull=False).order_by("frame", "index").distinct("frame")
    return [
        (frame, task, state) for frame, task, state in rows.values_list("frame", "pk", "status") if frame is not None
    ]


def _proxies_of(job: UUID, step: UUID) -> dict[UUID, Proxy]:
    """Give the current proxy of each task: the first by name, should a task leave several pictures."""
    rows = Output.objects.filter(job=job, task__step=step, role=OutputRole.PROXY, is_current=True)
    rows = rows.order_by("task", "name").distinct("task")
    return {
        task: Proxy(digest, key, width, height)
        for task, digest, key, width, height in rows.values_list("task", "digest", "key", "width", "height")
    }


def first_step_with_frames(job: UUID) -> Step | None:
    """Give the step whose frames a movie shows."""
    task = Task.objects.filter(job=job, frame__isnull=False).order_by("step__index").select_related("step").first()
    return task.step if task else None


def frames_of(step: UUID) -> list[int]:
    """Give the frames of a step, in order."""
    return [frame for frame, _, _ in _tasks_of(step)]


def rate_of(job: Job) -> Fraction:
    """Give a job's frames per second: what the scene's report says of the scene that is rendered, else 24."""
    report = job.scene_version.report if job.scene_version else None
    scenes = report.get("scenes") if isinstance(report, dict) else None
    name = job.parameters.get("Scene", {}).get("value", "")
    for scene in scenes if isinstance(scenes, list) else []:
        if isinstance(scene, dict) and (scene.get("name") == name if name else scene.get("active")):
            return _rate(scene.get("fps"))
    return DEFAULT_RATE


def _rate(told: object) -> Fraction:
    """Take a rate from a report, which came out of a stranger's scene."""
    if not (isinstance(told, list) and len(told) == 2 and all(type(n) is int and n > 0 for n in told)):
        return DEFAULT_RATE
    rate = Fraction(*told)
    if not 1 <= rate <= MOST_PER_SECOND or rate.denominator > LARGEST_DENOMINATOR:
        return DEFAULT_RATE
    return rate


def stills_of(movie: Movie, found: Look) -> list[Still]:
    """Say what a movie shows now, or would if it were made."""
    return lay_out(movie.frames, found.proxies, movie.unreadable)


def segments_of(movie: Movie, stills: list[Still]) -> list[Segment]:
    """Cut what a movie shows into segments; none while there is no picture."""
    size = picture_size(stills)
    return cut(stills, size=size, rate=movie.rate, encoder=_encoder()) if size else []


@cache
def _encoder() -> str:
    return f"av-{version('av')}"


def movie_of(job: Job) -> dict[str, Any]:
    """Describe a job's movie for a person: what is in it, what is missing, and what is wrong with it."""
    movie = Movie.objects.filter(job=job).first() or Movie(job=job, studio_id=job.studio_id)
    if movie.step_id is None and not movie.refusal:
        step = first_step_with_frames(job.id)
        rate = rate_of(job)
        movie.step, movie.frames = step, frames_of(step.id) if step else []
        movie.rate_numerator, movie.rate_denominator = rate.numerator, rate.denominator
    found = look(movie)
    stills = stills_of(movie, found)
    segments = segments_of(movie, stills)
    is_complete = movie.version > 0 and not found.unfinished and _is_up_to_date(movie, segments)
    size = picture_size(stills)
    return {
        "movie": movie,
        "status": "complete" if is_complete else "growing" if movie.version else "waiting",
        "complete": is_complete,
        "frames": len(movie.frames),
        "present": sum(still.shown == still.frame for still in stills),
        "missing": [still.frame for still in stills if still.mark == "missing"],
        "unreadable": [_unreadable(movie, found, s.frame) for s in stills if s.mark == "unreadable"],
        "odd_sizes": [
            {"frame": frame, "width": wide, "height": high} for frame, (wide, high) in odd_ones(stills, size or (0, 0))
        ],
    }


def _is_up_to_date(movie: Movie, segments: list[Segment]) -> bool:
    """Say whether the movie shows every frame as it is now."""
    made = dict(movie.segments.values_list("index", "inputs"))
    return movie.status == "complete" and all(s.is_whole and made.get(s.index) == s.inputs for s in segments)


def _unreadable(movie: Movie, found: Look, frame: int) -> dict[str, Any]:
    proxy = found.proxies[frame]
    why = movie.unreadable.get(proxy.digest) or "its size is not that of a proxy"
    return {"frame": frame, "why": why}


def quality_of(job: Job) -> tuple[int, list[Finding]]:
    """Look through a job's verified pictures; give how many there are and what is odd."""
    rows = Output.objects.filter(job=job, role=OutputRole.RENDER, is_current=True, statistics__isnull=False)
    seen: dict[UUID, int] = {}
    pictures = []
    for row in rows.select_related("task").order_by("task", "name").iterator():
        if row.frame is None or not isinstance(row.statistics, dict):
            continue
        place = seen[row.task_id] = seen.get(row.task_id, -1) + 1
        series = (str(row.task.step_id), _other_parameters(row.task), place)
        pictures.append(Picture(series, row.frame, str(row.task_id), row.width, row.height, row.statistics))
    return len(pictures), check(pictures)


def _other_parameters(task: Task) -> tuple[tuple[str, str], ...]:
    """Tell apart the cameras or layers of one frame."""
    return tuple(sorted((name, str(value)) for name, value in task.parameters.items() if name.lower() != "frame"))
