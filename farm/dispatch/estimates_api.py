"""`/api/v1/estimates`: what an order would cost, and how long it would take, before it is submitted."""

from __future__ import annotations

from typing import Any

from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.moves import choices
from farm.core.views import ApiView
from farm.dispatch.estimates import Estimate, estimate_order
from farm.dispatch.estimating import Basis
from farm.jobs.api import OrderSerializer, read_order
from farm.studios.authentication import caller
from farm.studios.roles import Scope


class EstimateRowSerializer(serializers.Serializer[Any]):
    """A wide range for all of an order, on one class of worker of one fleet. Null: there is no rate for it."""

    fleet = serializers.CharField()
    worker_class = serializers.CharField(help_text='A GPU\'s name, or "cpu".')
    basis = serializers.ChoiceField(choices=choices(Basis), help_text="What it rests on: the same scene says most.")
    frames = serializers.IntegerField(help_text="How many frames it was learnt from.")
    slots = serializers.IntegerField(help_text="How many at once the time is for.")
    micro_per_gpu_hour = serializers.IntegerField(allow_null=True)
    p10_micro = serializers.IntegerField(allow_null=True)
    p50_micro = serializers.IntegerField(allow_null=True)
    p90_micro = serializers.IntegerField(allow_null=True)
    p10_s = serializers.IntegerField(allow_null=True)
    p50_s = serializers.IntegerField(allow_null=True)
    p90_s = serializers.IntegerField(allow_null=True)


class EstimateSerializer(serializers.Serializer[Any]):
    """What an order would come to; nothing was created. Scouts narrow the range once it is submitted."""

    tasks = serializers.IntegerField()
    currency = serializers.CharField()
    results = EstimateRowSerializer(many=True)


class EstimatesView(ApiView):
    """Ask before paying."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=OrderSerializer, responses=EstimateSerializer, operation_id="estimates_make")
    def post(self, request: Request) -> Response:
        """Estimate an order: a wide range for each class of worker that could run it. Creates nothing."""
        project, version, order = read_order(request, self)
        planned, found = estimate_order(project.studio, order=order, version=version, now=timezone.now())
        return Response(
            {
                "tasks": planned.expansion.task_count,
                "currency": caller(request).studio.currency,
                "results": [_row(each) for each in found],
            }
        )


def _row(found: Estimate) -> dict[str, Any]:
    told = vars(found.range) if found.range else dict.fromkeys(_RANGE)
    return {
        "fleet": found.offer.fleet,
        "worker_class": found.offer.worker_class,
        "basis": found.wide.basis,
        "frames": found.wide.frames,
        "slots": found.slots,
        "micro_per_gpu_hour": found.rate,
        **told,
    }


_RANGE = ("p10_micro", "p50_micro", "p90_micro", "p10_s", "p50_s", "p90_s")

urls = [path("estimates", EstimatesView.as_view())]
