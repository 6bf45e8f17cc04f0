"""The SDK's front: a farm, and what can be asked of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from farmhand.answers import (
    Attempt,
    Budget,
    Check,
    CostObject,
    Decision,
    Fleet,
    Job,
    Line,
    Me,
    Moved,
    Movie,
    Order,
    Output,
    Project,
    Quality,
    Quote,
    Scene,
    SceneDetail,
    Task,
    Totals,
    Version,
    Why,
)
from farmhand.answers import Farm as FarmAnswer
from farmhand.connection import Connection, Patience, Wait, new_key, no_matter
from farmhand.digests import HashCache
from farmhand.errors import FarmError, Refused
from farmhand.meters import Progress, Watcher
from farmhand.profiles import cache_file, read_profile
from farmhand.pull import Pulled, pull_file, pull_outputs
from farmhand.push import Plan, Pushed, plan_push, send_version

ENDED = frozenset({"succeeded", "failed", "cancelled"})
ENDED_ATTEMPT = frozenset({"succeeded", "failed", "interrupted", "lost", "cancelled", "superseded"})
INSPECTED = frozenset({"inspected", "refused"})
LOG_NEXT = "Farm-Log-Next"


class ProjectNeeded(Refused):
    """The studio has several projects: {names}. Name one with --project."""

    code = "project-needed"


class NoProject(Refused):
    """The studio has no project {name!r}. It has: {names}."""

    code = "no-project"


class Ambiguous(Refused):
    """Several {what} begin with {prefix}: {ids}. Give more of the id."""

    code = "ambiguous"


class NoneSuch(Refused):
    """There is no {what} {wanted!r} here. {hint}"""

    code = "none-such"


class NoMovie(Refused):
    """The job has no movie yet: {why}."""

    code = "no-movie"


class MovieGrew(Refused):
    """The movie was made anew while it was fetched. Fetch it again."""

    code = "movie-grew"


@dataclass(frozen=True)
class News:
    """What is new of a job since the last look."""

    job: Job
    why: Why
    outputs: list[Output] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        return self.job["status"] in ENDED

    @property
    def is_suspended(self) -> bool:
        """Whether nothing moves any more until a person says so."""
        return self.job["status"] == "suspended" and not self.job["tasks"]["leased"]


class Farm:
    """
    One farm, asked with one token.

        with Farm() as farm:  # as `farmhand login` left it, or FARMHAND_URL and FARMHAND_TOKEN
            pushed = farm.push_scene("shots/010", project="Spring")
            job = farm.submit_job({"scene_version": pushed.version["id"], "renderer": "blender", …})
            for news in farm.watch_job(job["id"]):
                print(news.why["sentence"])

    Answers are plain dictionaries with the keys of `farmhand.answers`. Refusals are `FarmError`, with a stable code.
    """

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        profile: str = "",
        patience: Patience | None = None,
        on_wait: Callable[[Wait], None] = no_matter,
        cache: Path | None = None,
    ) -> None:
        """:raises NotLoggedIn: there is no token for this farm"""
        if not url or not token:
            kept = read_profile(profile)
            url, token = url or kept.url, token or kept.require_token()
        self.connection = Connection(url, token, patience=patience, on_wait=on_wait)
        self.cache = HashCache(cache or cache_file())

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()
        self.cache.close()

    @property
    def url(self) -> str:
        return self.connection.url

    # --- who and where

    def me(self) -> Me:
        return cast(Me, self.connection.get("/me"))

    def projects(self) -> Iterator[Project]:
        return self.connection.pages("/projects")

    def project(self, wanted: str = "") -> Project:
        """
        Give a project by its name or id; without either, the studio's only one.

        :raises NoProject, ProjectNeeded: as they say
        """
        known = list(self.projects())
        names = ", ".join(project["name"] for project in known) or "none yet"
        if not wanted and len(known) > 1:
            raise ProjectNeeded(names=names)
        for project in known:
            if not wanted or wanted == project["id"] or wanted.casefold() == project["name"].casefold():
                return project
        raise NoProject(name=wanted, names=names)

    # --- scenes

    def scenes(self, *, project: str | None = None, name: str | None = None) -> Iterator[Scene]:
        return self.connection.pages("/scenes", project=project, name=name)

    def scene(self, scene_id: str) -> SceneDetail:
        return cast(SceneDetail, self.connection.get(f"/scenes/{scene_id}"))

    def versions(self, scene_id: str) -> Iterator[Version]:
        """Give a scene's versions, newest first."""
        return self.connection.pages(f"/scenes/{scene_id}/versions")

    def version(self, version_id: str) -> Version:
        return cast(Version, self.connection.get(f"/scene-versions/{version_id}"))

    def report(self, version_id: str) -> dict[str, Any]:
        """Give what inspection found; refused with `report-missing` until it is there."""
        return cast(dict[str, Any], self.connection.get(f"/scene-versions/{version_id}/report"))

    def wait_for_report(
        self, version_id: str, *, every: float = 1.0, on_look: Callable[[Version], None] = lambda version: None
    ) -> Version:
        """Look until a version is inspected or refused; who waits says so in `on_look`."""
        while True:
            version = self.version(version_id)
            on_look(version)
            if version["status"] in INSPECTED:
                return version
            time.sleep(every)

    def open_scene(self, name: str, *, project: str) -> Scene:
        """Give the scene of this name in a project, made if need be."""
        for scene in self.scenes(project=project, name=name):
            return scene
        try:
            body = {"project": project, "name": name}
            return cast(Scene, self.connection.post("/scenes", body, key=new_key()))
        except FarmError as error:
            if error.code != "name-taken":
                raise
            return next(self.scenes(project=project, name=name))  # somebody was quicker by a moment

    def plan_push(self, path: str | Path, *, on_progress: Watcher = lambda progress: None, **choices: Any) -> Plan:
        """Find and hash the files to send: `entry`, `exclude`, `everything`, `follow_links` as in `push_scene`."""
        return plan_push(Path(path), cache=self.cache, on_progress=on_progress, **choices)

    def send(
        self, plan: Plan, scene_id: str, *, keep_paths: bool = False, on_progress: Watcher = lambda progress: None
    ) -> Pushed:
        """Send what was planned as a new version of a scene."""
        return send_version(self.connection, scene_id, plan, keep_paths=keep_paths, on_progress=on_progress)

    def push_scene(
        self,
        path: str | Path,
        *,
        entry: str = "",
        scene: str = "",
        project: str = "",
        exclude: Sequence[str] = (),
        everything: bool = False,
        follow_links: bool = False,
        keep_paths: bool = False,
        on_progress: Watcher = lambda progress: None,
    ) -> Pushed:
        """
        Send a folder, or one file, as a new version of a scene; what the farm has already does not travel.

        :param entry: the file that opens, relative to the folder; the only .blend at the top unless said
        :param scene: name of the scene; the entry's unless said
        :param project: name or id; the studio's only one unless said
        :param exclude: patterns of files to leave out, such as `*.psd` or `old/*`
        :param everything: also send backups, version control and what desktops leave behind
        :param follow_links: also send what links that lead out of the folder point to
        :param keep_paths: lay files out at the absolute paths they have here too, for scenes that spell paths so
        :raises Refused: a file, a folder or the entry is not as it must be; each class says how
        :raises FarmError: the farm refused
        """
        plan = self.plan_push(
            path,
            entry=entry,
            exclude=exclude,
            everything=everything,
            follow_links=follow_links,
            on_progress=on_progress,
        )
        home = self.project(project)
        opened = self.open_scene(scene or Path(plan.entry).stem, project=home["id"])
        return self.send(plan, opened["id"], keep_paths=keep_paths, on_progress=on_progress)

    # --- orders

    def check_job(self, order: Order) -> Check:
        """Say what an order would come to, without creating anything."""
        return cast(Check, self.connection.post("/jobs/check", order, repeatable=True))

    def submit_job(self, order: Order, *, key: str = "") -> Job:
        """Order a job; asked again with the same key, the farm gives the same job."""
        return cast(Job, self.connection.post("/jobs", order, key=key or new_key()))

    def jobs(self, **filters: str | None) -> Iterator[Job]:
        """Give the studio's jobs, newest first. Filters: project, status, name."""
        return self.connection.pages("/jobs", **filters)

    def job(self, job_id: str) -> Job:
        return cast(Job, self.connection.get(f"/jobs/{job_id}"))

    def why(self, job_id: str) -> Why:
        return cast(Why, self.connection.get(f"/jobs/{job_id}/why"))

    def quotes(self, job_id: str) -> list[Quote]:
        """Give what was quoted last, one range for each class of worker."""
        return cast(list[Quote], self.connection.get(f"/jobs/{job_id}/quotes"))

    def quote(self, job_id: str, *, slots: int = 1) -> list[Quote]:
        """Quote what remains of a job, from the frames it has rendered; the farm keeps the quote."""
        return cast(list[Quote], self.connection.post(f"/jobs/{job_id}/quotes", {"slots": slots}))

    def tasks(self, job_id: str, **filters: Any) -> Iterator[Task]:
        """Give a job's tasks. Filters: status, step, frame."""
        return self.connection.pages(f"/jobs/{job_id}/tasks", **filters)

    def attempts(self, job_id: str, **filters: str | None) -> Iterator[Attempt]:
        """Give a job's attempts, newest first. Filters: task, status."""
        return self.connection.pages(f"/jobs/{job_id}/attempts", **filters)

    def outputs(self, job_id: str, **filters: Any) -> Iterator[Output]:
        """Give a job's verified files. Filters: role, task, frame."""
        return self.connection.pages(f"/jobs/{job_id}/outputs", **filters)

    def log(self, attempt_id: str, *, since: int = 0) -> tuple[str, int]:
        """Give an attempt's log from a chunk on, and the number of the chunk to ask for next."""
        answer = self.connection.ask("GET", f"/attempts/{attempt_id}/log", query={"since": since})
        return answer.content.decode("utf-8", "replace"), int(answer.headers.get(LOG_NEXT, since))

    # --- steering

    def suspend_job(self, job_id: str) -> Job:
        """Start nothing new; what runs finishes."""
        return cast(Job, self.connection.post(f"/jobs/{job_id}/suspend", repeatable=True))

    def resume_job(self, job_id: str) -> Job:
        """Go on; after scouts, this is the approval."""
        return cast(Job, self.connection.post(f"/jobs/{job_id}/resume"))

    def cancel_job(self, job_id: str) -> Job:
        """Cancel what has not ended."""
        return cast(Job, self.connection.post(f"/jobs/{job_id}/cancel"))

    def change_priority(self, job_id: str, priority: int) -> Job:
        body = {"priority": priority}
        return cast(Job, self.connection.json("PATCH", f"/jobs/{job_id}", body=body, repeatable=True))

    def retry_tasks(self, job_id: str, which: str, tasks: Sequence[str] = ()) -> int:
        """Render again: `failed`, `missing`, or `list` with task ids; give how many tasks that is."""
        body: dict[str, Any] = {"which": which} | ({"tasks": list(tasks)} if tasks else {})
        return cast(Moved, self.connection.post(f"/jobs/{job_id}/retry", body, key=new_key()))["tasks"]

    def cancel_tasks(self, job_id: str, tasks: Sequence[str]) -> int:
        body = {"tasks": list(tasks)}
        return cast(Moved, self.connection.post(f"/jobs/{job_id}/cancel-tasks", body, repeatable=True))["tasks"]

    def watch_job(self, job_id: str, *, every: float = 1.0, outputs: bool = True) -> Iterator[News]:
        """
        Give what is new of a job, look by look, until it has ended; frames come as they are verified.

        Whoever iterates may stop at any time: a suspended job, for one, waits for a person.
        """
        known: set[str] = set()
        cursor = newest = None
        while True:
            job = self.job(job_id)
            has_ended = job["status"] in ENDED
            # Ids follow time, but of two that arrive at once either may be seen first: each look begins one look
            # earlier than the last one ended, and the last of all takes everything.
            cursor, after = newest, None if has_ended else cursor
            found = self.connection.pages(f"/jobs/{job_id}/outputs", role="render", after=after)
            fresh = [output for output in found if output["id"] not in known] if outputs else []
            known.update(output["id"] for output in fresh)
            newest = max(known, default=None)
            yield News(job, self.why(job_id), fresh)
            if has_ended:
                return
            time.sleep(every)

    # --- results

    def pull_job(
        self,
        job_id: str,
        folder: str | Path,
        *,
        role: str = "render",
        frames: Sequence[int] | None = None,
        on_progress: Watcher = lambda progress: None,
    ) -> Pulled:
        """
        Fetch a job's verified files into a folder; those that are there and equal are left alone.

        :raises FarmError: the farm refused
        :raises Refused: the folder or the disk is in the way; each class says how
        """
        wanted = set(frames) if frames is not None else None
        found = [o for o in self.outputs(job_id, role=role) if wanted is None or o["frame"] in wanted]

        def renew(output: Output) -> Output:
            again = self.outputs(job_id, role=role, task=output["task"])
            return next((o for o in again if o["id"] == output["id"]), output)

        return pull_outputs(
            self.connection, found, Path(folder), renew=renew, cache=self.cache, on_progress=on_progress
        )

    def movie(self, job_id: str) -> Movie:
        """Say what a job's movie shows so far, and where it is."""
        return cast(Movie, self.connection.get(f"/jobs/{job_id}/movie"))

    def quality(self, job_id: str) -> Quality:
        """Say what looks wrong with a job's frames."""
        return cast(Quality, self.connection.get(f"/jobs/{job_id}/quality"))

    def pull_movie(
        self, job_id: str, path: str | Path, *, on_progress: Watcher = lambda progress: None
    ) -> tuple[Movie, bool]:
        """
        Fetch a job's movie as it is now; give what it shows, and whether it had to be fetched.

        :raises NoMovie: there is none yet
        :raises MovieGrew: it was made anew again and again
        """
        for _ in range(3):
            movie = self.movie(job_id)
            with contextlib.suppress(MovieGrew):
                return movie, self._pull_movie(job_id, movie, Path(path), on_progress)
        raise MovieGrew

    def _pull_movie(self, job_id: str, movie: Movie, path: Path, on_progress: Watcher) -> bool:
        if not movie["url"]:
            raise NoMovie(why=movie["trouble"] or "no frame has a picture yet")

        def renew(output: Output) -> Output:
            again = self.movie(job_id)
            if again["digest"] != output["digest"]:
                raise MovieGrew
            return cast(Output, {**output, "url": again["url"]})

        found = {"id": job_id, "task": job_id, "name": path.name, "size": movie["size"], "digest": movie["digest"]}
        output = cast(Output, {**found, "url": movie["url"]})
        return pull_file(self.connection, output, path, renew=renew, cache=self.cache, on_progress=on_progress)

    # --- money

    def cost_object(self, cost_object_id: str) -> CostObject:
        return cast(CostObject, self.connection.get(f"/cost-objects/{cost_object_id}"))

    def statement(self, **filters: str | None) -> tuple[Totals, Iterator[Line]]:
        """Give a statement's totals, and its lines oldest first. Filters: cost_object, project, from, to."""
        first = self.connection.get("/statement", limit=1, **filters)
        return cast(Totals, first["totals"]), self.connection.pages("/statement", **filters)

    def budgets(self, **filters: str | None) -> Iterator[Budget]:
        """Give budgets. Filters: scope, subject, month."""
        return self.connection.pages("/budgets", **filters)

    def set_budget(
        self, scope: str, cap_micro: int | None, *, subject: str | None = None, month: str | None = None
    ) -> Budget:
        """Set, change or (None) lift the cap of a studio's month, a project or a job (its cost object)."""
        wish: Mapping[str, Any] = {
            name: value for name, value in (("subject", subject), ("month", month)) if value is not None
        }
        for budget in self.budgets(scope=scope, **wish):
            body = {"cap_micro": cap_micro}
            return cast(Budget, self.connection.json("PATCH", f"/budgets/{budget['id']}", body=body, repeatable=True))
        new: dict[str, Any] = {"scope": scope, "cap_micro": cap_micro, **wish}
        return cast(Budget, self.connection.post("/budgets", new, key=new_key()))

    # --- machines

    def fleets(self) -> Iterator[Fleet]:
        return self.connection.pages("/fleets")

    def decisions(self, *, fleet: str | None = None, kind: str | None = None) -> Iterator[Decision]:
        """Give what was decided about machines, newest first."""
        return self.connection.pages("/decisions", fleet=fleet, kind=kind)

    def whole_farm(self) -> FarmAnswer:
        return cast(FarmAnswer, self.connection.get("/farm"))

    def steer_fleet(self, fleet_id: str, act: str) -> Fleet:
        """`pause` or `resume` a fleet; for operators."""
        return cast(Fleet, self.connection.post(f"/fleets/{fleet_id}/{act}", repeatable=True))

    def steer_farm(self, act: str) -> FarmAnswer:
        """`pause` or `resume` the whole farm; for operators."""
        return cast(FarmAnswer, self.connection.post(f"/farm/{act}", repeatable=True))

    # --- ids

    def find_job(self, wanted: str, *, last: str = "") -> str:
        """
        Give a job's id from an id, an unambiguous beginning of one, or `last` (the one given, else the newest).

        :raises NoneSuch, Ambiguous: as they say
        """
        if wanted == "last":
            newest = last or next((job["id"] for job in self.connection.get("/jobs", limit=1)["results"]), "")
            if not newest:
                raise NoneSuch(
                    what="job", wanted=wanted, hint="The studio has no job yet; `farmhand job submit` makes one."
                )
            return newest
        return self._find("/jobs", "job", wanted, hint="`farmhand job list` shows them.")

    def find_version(self, wanted: str, *, last: str = "") -> str:
        """
        Give a scene version's id from an id, a beginning of one, a scene's name (its newest version that is whole),
        or `last`.

        :raises NoneSuch, Ambiguous: as they say
        """
        if wanted == "last" and last:
            return last
        if is_id(wanted):
            return wanted.lower()
        if wanted == "last":
            found = [version for scene in self.scenes() if (version := self._newest_whole(scene))]
            if found:
                return max(found)  # ids follow time
            raise NoneSuch(what="scene version", wanted=wanted, hint="`farmhand scene push` makes one.")
        hint = "Give a version's id, a scene's name, or `last`; `farmhand scene list` shows them."
        named = list(self.scenes(name=wanted))
        if len(named) > 1:
            raise Ambiguous(what="scenes", prefix=wanted, ids="one in each of several projects")
        if named:
            return self._named_version(named[0])
        if not _is_prefix(wanted):
            raise NoneSuch(what="scene version", wanted=wanted, hint=hint)
        lists = (f"/scenes/{scene['id']}/versions" for scene in self.scenes())
        matches = [row["id"] for path in lists for row in self._beginning_with(path, wanted)]
        return _only(matches, "scene versions", "scene version", wanted, hint)

    def _named_version(self, scene: Scene) -> str:
        whole = self._newest_whole(scene)
        if whole is None:
            hint = "Run `farmhand scene push` to its end; what has arrived already is not sent again."
            raise NoneSuch(what="whole version of scene", wanted=scene["name"], hint=hint)
        return whole

    def _newest_whole(self, scene: Scene) -> str | None:
        """One that is still being uploaded cannot be meant: who wants that one gives its id."""
        return next((v["id"] for v in self.versions(scene["id"]) if v["status"] != "uploading"), None)

    def _find(self, path: str, what: str, wanted: str, *, hint: str) -> str:
        if is_id(wanted):
            return wanted.lower()
        if not _is_prefix(wanted):
            raise NoneSuch(what=what, wanted=wanted, hint=hint)
        matches = [row["id"] for row in self._beginning_with(path, wanted)]
        return _only(matches, f"{what}s", what, wanted, hint)

    def _beginning_with(self, path: str, prefix: str) -> list[dict[str, Any]]:
        """Give rows of a list, newest first, whose ids begin so: they are neighbours, so that one page tells."""
        digits = prefix.replace("-", "").lower()
        above = str(UUID(digits.ljust(32, "f")))  # pages go on below their cursor
        rows = self.connection.get(path, cursor=above, limit=3)["results"]
        return [row for row in rows if row["id"].replace("-", "").startswith(digits)]


def task_count(job: Job) -> int:
    """Give how many tasks a job has, in whatever state."""
    return sum(job["tasks"].values())


def is_id(text: str) -> bool:
    """Say whether a text is a whole id."""
    return len(text) == 36 and _is_prefix(text)


def _is_prefix(text: str) -> bool:
    digits = text.replace("-", "")
    return 4 <= len(digits) <= 32 and all(letter in "0123456789abcdefABCDEF" for letter in digits)


def _only(matches: list[str], plural: str, singular: str, wanted: str, hint: str) -> str:
    if len(matches) > 1:
        raise Ambiguous(what=plural, prefix=wanted, ids=", ".join(matches))
    if not matches:
        raise NoneSuch(what=singular, wanted=wanted, hint=hint)
    return matches[0]


__all__ = ["ENDED", "ENDED_ATTEMPT", "Farm", "News", "Progress"]
