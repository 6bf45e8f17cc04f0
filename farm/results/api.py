"""`/api/v1/jobs/{id}/movie` and `/quality`: what was made of a job's frames, and what looks wrong with them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.storage import store
from farm.core.views import ApiView
from farm.jobs import selectors as jobs
from farm.results import selectors
from farm.results.models import Movie
from farm.results.quality import Kind
from farm.results.timeline import padded
from farm.studios.roles import Scope

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


urls = [
    path("jobs/<uuid:job_id>/movie", MovieView.as_view()),
    path("jobs/<uuid:job_id>/quality", QualityView.as_view()),
]
