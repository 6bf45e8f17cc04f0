"""Movies, and the segments they are joined from."""

from __future__ import annotations

from fractions import Fraction

from django.contrib.postgres.fields import ArrayField
from django.db import models

from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.jobs.models import Job, Step
from farm.results.moves import MovieStatus
from farm.studios.models import Studio


class Movie(models.Model):
    """A job's movie: of its first step with frames, made from the first proxy on, and made anew as frames arrive."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    job = models.OneToOneField(Job, models.CASCADE)
    step = models.ForeignKey(Step, models.CASCADE, null=True, db_index=False)  # null until it was first looked at
    frames = ArrayField(models.IntegerField(), default=list)  # the job's, in the order of the movie
    rate_numerator = models.IntegerField(default=24)
    rate_denominator = models.IntegerField(default=1)
    status = models.CharField(max_length=16, choices=choices(MovieStatus), default=MovieStatus.GROWING)
    refusal = models.TextField(blank=True)  # why there never is a movie of this job
    trouble = models.TextField(blank=True)  # why it could not be made the last time
    unreadable = models.JSONField(default=dict)  # {digest of a proxy: why it cannot be opened}

    # The file there is. Version 0: none yet.
    version = models.IntegerField(default=0)
    key = models.TextField(blank=True)
    size = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    width = models.IntegerField(null=True)
    height = models.IntegerField(null=True)
    frame_count = models.IntegerField(default=0)  # counted in it
    shown = models.IntegerField(default=0)  # how many of those are the frames' own pictures
    joined = models.CharField(max_length=64, blank=True)  # digest of the segments it was joined from
    made_at = models.DateTimeField(null=True)

    # How `grow_movies` finds its work. `seen`: the oldest transaction that ran when the job was last looked at.
    seen = models.BigIntegerField(default=0)
    seen_status = models.CharField(max_length=16, blank=True)  # the job's, then
    asked_at = models.DateTimeField(null=True)  # a message is on its way
    check_at = models.DateTimeField(null=True)  # something is put off until then
    sweep_at = models.DateTimeField(null=True)  # replaced files may be deleted then

    @property
    def rate(self) -> Fraction:
        """Frames per second."""
        return Fraction(self.rate_numerator, self.rate_denominator)


class MovieSegment(models.Model):
    """Some frames of a movie, encoded once; again only when what they show has changed."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT, db_index=False)
    movie = models.ForeignKey(Movie, models.CASCADE, related_name="segments", db_index=False)
    index = models.IntegerField()
    first = models.IntegerField()  # place in the movie, from 0
    last = models.IntegerField()
    width = models.IntegerField()  # of its pictures; encoded they have even sides
    height = models.IntegerField()
    format = models.CharField(max_length=100)  # encoder, size and rate: segments of one movie share it
    inputs = models.CharField(max_length=64)  # digest of what is to be seen in it
    own = models.IntegerField()  # how many frames are shown by their own picture
    frames = models.IntegerField()  # counted in it
    key = models.TextField()
    size = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    made_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["movie", "index"], name="one_segment_per_index")]
