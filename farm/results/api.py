"""`/api/v1/jobs/{id}/frames`, `/movie`, `/archive` and `/quality`: a job's frames, and what is made of them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.http import content_disposition_header
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_GET
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import Invalid
from farm.core.moves import choices
from farm.core.pages import MAX_INTEGER, parse_number, query_of
from farm.core.storage import store
from farm.core.views import ApiView
from farm.jobs import selectors as jobs
from farm.jobs.ranges import numbers_of
from farm.results import archives, flipbook, selectors
from farm.results.models import Movie
from farm.results.moves import ArchiveRole
from farm.results.quality import Kind
from farm.results.timeline import padded
from farm.studios.roles import Scope
from farm.studios.tenancy import become_tenant
from workers.protocol import OutputRole

_PICTURES = [str(role) for role in (OutputRole.PROXY, OutputRole.THUMBNAIL, OutputRole.RENDER)]
DOWNLOAD_VALID = timedelta(hours=1)
MOST_FINDINGS = 1000


class UnreadableFrameSerializer(serializers.Serializer[Any]):
    """A frame whose small picture cannot be opened; its own file was verified."""

    frame = serializers.IntegerField()
    why = serializers.CharField()


class OddSizeSerializer(serializers.Serializer[Any]):
    """A frame of another size than the movie: it is shown between bars, and says so."""

    frame = serializers.IntegerField()
    width = serializers.IntegerField()
    height = serializers.IntegerField()


class PaddingSerializer(serializers.Serializer[Any]):
    """Pixels added because H.264 has even sides only: the last column or row, repeated."""

    right = serializers.IntegerField()
    bottom = serializers.IntegerField()


class MovieSerializer(serializers.Serializer[Any]):
    """A job's movie. A missing frame holds the one before it, marked; before the first there is a slate."""

    status = serializers.ChoiceField(choices=["waiting", "growing", "complete"])
    complete = serializers.BooleanField(help_text="Every frame has succeeded, and the movie shows it.")
    frames = serializers.IntegerField(help_text="Frames of the job, and of the movie.")
    present = serializers.IntegerField(help_text="Frames that have a picture now.")
    shown = serializers.IntegerField(help_text="Frames that this version of the movie shows by their own picture.")
    missing = serializers.ListField(child=serializers.IntegerField(), help_text="Frames without a picture yet.")
    unreadable = UnreadableFrameSerializer(many=True)
    odd_sizes = OddSizeSerializer(many=True)
    fps = serializers.CharField(help_text="Frames per second as an exact fraction, such as 24000/1001.")
    version = serializers.IntegerField(help_text="Goes up each time the file is made anew; 0: there is none yet.")
    width = serializers.IntegerField(allow_null=True)
    height = serializers.IntegerField(allow_null=True)
    padding = PaddingSerializer()
    size = serializers.IntegerField(help_text="Bytes.")
    digest = serializers.CharField(allow_blank=True)
    made_at = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField(
        allow_null=True, help_text="Valid for an hour; below the farm's own address when it begins with a slash."
    )
    trouble = serializers.CharField(allow_blank=True, help_text="Why there is no movie, or no newer one.")


class FindingSerializer(serializers.Serializer[Any]):
    """Something about a frame that a person should look at."""

    kind = serializers.ChoiceField(choices=[str(k) for k in Kind])
    frame = serializers.IntegerField()
    task = serializers.UUIDField()
    params = serializers.DictField()
    sentence = serializers.CharField()


class QualitySerializer(serializers.Serializer[Any]):
    """What looks wrong with a job's frames, in order of frame; at most 1,000 findings are listed, all are counted."""

    checked = serializers.IntegerField(help_text="Pictures whose statistics were looked through.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Findings by kind.")
    findings = FindingSerializer(many=True)


class MovieView(ApiView):
    """The job's movie."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(responses=MovieSerializer, operation_id="jobs_movie")
    def get(self, request: Request, job_id: UUID) -> Response:
        """What the movie shows so far, and where it is. It exists from the first frames on and fills in."""
        job = jobs.job(job_id)
        found = selectors.movie_of(job)
        return Response(MovieSerializer(found | _file(found["movie"], job.name)).data)


def _file(movie: Movie, name: str) -> dict[str, Any]:
    size = (movie.width or 0, movie.height or 0)
    wide, high = padded(size)
    return {
        "shown": movie.shown,
        "fps": f"{movie.rate_numerator}/{movie.rate_denominator}",
        "version": movie.version,
        "width": wide or None,
        "height": high or None,
        "padding": {"right": wide - size[0], "bottom": high - size[1]},
        "size": movie.size,
        "digest": movie.digest,
        "made_at": movie.made_at,
        "url": _url(movie, name) if movie.version else None,
        "trouble": movie.refusal or movie.trouble,
    }


def _url(movie: Movie, name: str) -> str:
    filename = f"{name.replace('/', '-')}.mp4"
    kind = "video/mp4"
    return (
        store()
        .sign_download(movie.key, now=timezone.now(), valid=DOWNLOAD_VALID, filename=filename, content_type=kind)
        .url
    )


class QualityView(ApiView):
    """What looks wrong with the job's frames."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(responses=QualitySerializer, operation_id="jobs_quality")
    def get(self, request: Request, job_id: UUID) -> Response:
        """Black, uniform, transparent and broken frames, and those unlike their neighbours. None fails a frame."""
        checked, findings = selectors.quality_of(jobs.job(job_id))
        counts = Counter(str(finding.kind) for finding in findings)
        body = {"checked": checked, "counts": dict(counts), "findings": findings[:MOST_FINDINGS]}
        return Response(QualitySerializer(body).data)


class FrameSerializer(serializers.Serializer[Any]):
    """A frame of the job, and the picture there is of it."""

    frame = serializers.IntegerField()
    index = serializers.IntegerField(help_text="Its task's place in the step.")
    status = serializers.CharField(help_text="Its task's, by the first letter; not s, and a picture: an older one.")
    url = serializers.CharField(allow_null=True, help_text="Null: there is no picture yet.")
    width = serializers.IntegerField(allow_null=True)
    height = serializers.IntegerField(allow_null=True)
    digest = serializers.CharField(allow_null=True)


class FramesSerializer(serializers.Serializer[Any]):
    """Frames in order, those without a picture too."""

    step = serializers.UUIDField(allow_null=True, help_text="Whose frames they are; null: the job has none.")
    fps = serializers.CharField(help_text="Frames per second as an exact fraction, such as 24000/1001.")
    total = serializers.IntegerField(help_text="Frames of the step.")
    first = serializers.IntegerField(allow_null=True)
    last = serializers.IntegerField(allow_null=True)
    valid_until = serializers.DateTimeField(help_text="Until when the addresses are.")
    frames = FrameSerializer(many=True)
    next = serializers.IntegerField(allow_null=True, help_text="Ask for more `from` this frame; null: there are none.")


class FramesView(ApiView):
    """The job's frames."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses=FramesSerializer,
        operation_id="jobs_frames",
        parameters=[
            OpenApiParameter("role", str, enum=_PICTURES, description="proxy unless said."),
            OpenApiParameter("from", int, description="The first frame to give."),
            OpenApiParameter("limit", int, description=f"How many, 1 to {flipbook.MOST_FRAMES}."),
            OpenApiParameter("frames", str, description="Just these, as a range such as 1-10,15."),
        ],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """The frames of the job's first step that has any, each with the address of its picture."""
        query = query_of(request.query_params, {"role", "from", "limit", "frames"})
        role = query.get("role", OutputRole.PROXY)
        if role not in _PICTURES:
            raise Invalid("role", f"{role[:80]!r} is not one of {', '.join(_PICTURES)}")
        job, now = jobs.job(job_id), timezone.now()
        rate = selectors.rate_of(job)
        step = flipbook.step_shown(job.id)
        places = flipbook.places_of(step) if step else flipbook.NOWHERE
        wanted, following = _wanted(places, query)
        return Response(
            {
                "step": step,
                "fps": f"{rate.numerator}/{rate.denominator}",
                "total": len(places),
                "first": places.frames[0] if len(places) else None,
                "last": places.frames[-1] if len(places) else None,
                "valid_until": flipbook.valid_until(now),
                "frames": [vars(f) for f in flipbook.pictures(job, step, wanted, role=role, now=now)] if step else [],
                "next": following,
            }
        )


def _wanted(places: flipbook.Places, query: dict[str, str]) -> tuple[list[tuple[int, int]], int | None]:
    """Give the frames asked for, and the one that comes after them."""
    most = flipbook.MOST_FRAMES
    if "frames" in query:
        if query.keys() & {"from", "limit"}:
            raise Invalid("frames", "it is given beside from or limit; give one of them")
        return places.of(numbers_of(query["frames"], most=most, field="frames")), None
    limit = parse_number(query.get("limit", str(most)), "limit", least=1, most=most)
    first = parse_number(query["from"], "from") if "from" in query else -MAX_INTEGER
    found = places.from_frame(first, limit + 1)
    return found[:limit], found[limit][0] if len(found) > limit else None


class ArchiveWishSerializer(serializers.Serializer[Any]):
    """Which files to take away together."""

    role = serializers.ChoiceField(choices=choices(ArchiveRole), default=str(ArchiveRole.RENDER))
    frames = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=10_000,
        help_text="A range such as 1-10,15; empty: all.",
    )


class ArchiveSerializer(serializers.Serializer[Any]):
    """Where to fetch them as one zip. It is made while it is fetched; what is verified meanwhile is in it."""

    url = serializers.CharField(help_text="Valid for an hour; needs no token. Below the farm's own address.")
    name = serializers.CharField()
    files = serializers.IntegerField()
    bytes = serializers.IntegerField(help_text="Of the files; the zip is a little longer.")
    valid_until = serializers.DateTimeField()


class ArchiveView(ApiView):
    """Many files at once."""

    scopes = {"POST": Scope.JOBS_READ}

    @extend_schema(request=ArchiveWishSerializer, responses=ArchiveSerializer, operation_id="jobs_archive")
    def post(self, request: Request, job_id: UUID) -> Response:
        """Sign an address at which a job's files, or those of some frames, can be fetched as one zip."""
        wish = self.parse(request, ArchiveWishSerializer)
        job, now = jobs.job(job_id), timezone.now()
        files = archives.files_of(job.id, **wish)
        until = now + archives.VALID
        expires = int(until.timestamp())
        signed = archives.Wish(studio=str(job.studio_id), job=str(job.id), expires=expires, **wish).sign()
        return Response(
            {
                "url": f"/archives/{signed}",
                "name": archives.file_name(job),
                "files": len(files),
                "bytes": sum(file.size for file in files),
                "valid_until": until,
            }
        )


@transaction.non_atomic_requests
@require_GET
def serve_archive(request: HttpRequest, signed: str) -> HttpResponseBase:
    """
    Send the zip that a signed address stands for. What is in it is looked up first; no transaction is held meanwhile.

    :raises AddressNotSigned: the farm signed no such address
    :raises AddressExpired: it did, longer than an hour ago
    :raises TooManyArchives: the process makes as many as it can
    :raises Refusal: as `archives.files_of`
    """
    wish = archives.wish_of(signed, now=timezone.now())
    with transaction.atomic():
        become_tenant(wish.studio)
        job = jobs.job(UUID(wish.job))
        files = archives.files_of(job.id, role=wish.role, frames=wish.frames)
    archive = archives.Archive(files)
    headers = {
        "Content-Length": str(len(archive)),
        "Content-Disposition": content_disposition_header(True, archives.file_name(job)) or "attachment",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingHttpResponse(archive, content_type="application/zip", headers=headers)


archive_urls = [path("archives/<str:signed>", serve_archive)]

urls = [
    path("jobs/<uuid:job_id>/frames", gzip_page(FramesView.as_view())),
    path("jobs/<uuid:job_id>/archive", ArchiveView.as_view()),
    path("jobs/<uuid:job_id>/movie", MovieView.as_view()),
    path("jobs/<uuid:job_id>/quality", QualityView.as_view()),
]
