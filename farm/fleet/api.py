"""`/api/v1`: fleets, workers, pools, decisions, the farm's limits, the catalogue. Strangers are "others"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Count, Q, QuerySet, Sum, UUIDField, Value
from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import NotFound
from farm.core.moves import choices
from farm.core.names import NameField
from farm.core.pages import by_choice, by_id, page, page_schema
from farm.core.views import ApiView, once
from farm.fleet import catalogue, operating
from farm.fleet.decisions import KINDS, sentence
from farm.fleet.launches import standing
from farm.fleet.models import Fleet, FleetDecision, Pool, SeenWorker, Worker
from farm.fleet.moves import LIVE_WORKERS, STARTING_WORKERS, WorkerStatus
from farm.fleet.pools import FleetMarket
from farm.fleet.selectors import is_farm_paused, the_farm
from farm.studios.authentication import caller
from farm.studios.roles import Scope

MOST_MICRO = 2**53 - 1
MOST_MACHINES = 100_000
PURPOSES = ("render", "inspection")
GAUGES = ("index", "gpu_use", "gpu_memory_mib", "power_w")


class MachinesSerializer(serializers.Serializer[Any]):
    """How many machines a fleet has, and whose they are."""

    starting = serializers.IntegerField(help_text="Asked for, or booting.")
    ready = serializers.IntegerField()
    draining = serializers.IntegerField()
    own = serializers.IntegerField(help_text="Of those that registered: bound to your studio.")
    others = serializers.IntegerField(help_text="Bound to other studios.")
    nobody = serializers.IntegerField(help_text="Bound to none yet, or shared by all.")


class FleetSerializer(serializers.ModelSerializer[Fleet]):
    """Which machines are bought, and how many are there. Null: only the farm's operators see it."""

    machines = serializers.SerializerMethodField()
    may_use = serializers.SerializerMethodField(help_text="Whether your studio's work may run here.")
    settings = serializers.SerializerMethodField(help_text="The provider's own: image, subnets, ...")
    studios = serializers.SerializerMethodField(help_text="Who may use it; empty: everybody.")
    micro_per_hour = serializers.SerializerMethodField(help_text="What its machines cost now, in micro-dollars.")

    class Meta:
        model = Fleet
        fields = [
            "id",
            "name",
            "provider",
            "region",
            "zones",
            "instance_types",
            "gpu_models",
            "market",
            "price_cap_micro",
            "purposes",
            "software",
            "sharing",
            "min_machines",
            "max_machines",
            "idle_timeout_s",
            "boot_timeout_s",
            "max_life_s",
            "is_paused",
            "created_at",
            "machines",
            "may_use",
            "settings",
            "studios",
            "micro_per_hour",
        ]

    @extend_schema_field(MachinesSerializer)
    def get_machines(self, fleet: Any) -> dict[str, int]:
        counted: dict[str, int] = fleet.machines
        return counted

    def get_may_use(self, fleet: Any) -> bool:
        return not fleet.studios or fleet.asking in fleet.studios

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_settings(self, fleet: Any) -> dict[str, Any] | None:
        return fleet.settings if fleet.for_operator else None

    @extend_schema_field(serializers.ListField(child=serializers.UUIDField(), allow_null=True))
    def get_studios(self, fleet: Any) -> list[UUID] | None:
        return fleet.studios if fleet.for_operator else None

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_micro_per_hour(self, fleet: Any) -> int | None:
        paid: int | None = fleet.micro
        return paid


class FleetOrderSerializer(serializers.Serializer[Any]):
    """What an operator says of a fleet."""

    name = NameField(max_length=64)
    provider = serializers.ChoiceField(choices=["ec2", "local", "replay"])
    region = serializers.CharField(max_length=64, required=False)
    zones = serializers.ListField(child=serializers.CharField(max_length=64), required=False)
    instance_types = serializers.ListField(child=serializers.CharField(max_length=64), required=False)
    gpu_models = serializers.ListField(child=serializers.CharField(max_length=64), required=False)
    market = serializers.ChoiceField(choices=choices(FleetMarket), required=False)
    price_cap_micro = serializers.IntegerField(min_value=0, max_value=MOST_MICRO, allow_null=True, required=False)
    purposes = serializers.ListField(child=serializers.ChoiceField(choices=PURPOSES), min_length=1)
    software = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField(max_length=32)),
        required=False,
        help_text='What its image has, until a machine says so itself: {"blender": ["5.0.1"]}.',
    )
    sharing = serializers.ChoiceField(choices=["farm", "studio"], required=False)
    min_machines = serializers.IntegerField(min_value=0, max_value=MOST_MACHINES, required=False)
    max_machines = serializers.IntegerField(min_value=0, max_value=MOST_MACHINES, required=False)
    idle_timeout_s = serializers.IntegerField(min_value=0, max_value=86_400, required=False)
    boot_timeout_s = serializers.IntegerField(min_value=60, max_value=7_200, required=False)
    max_life_s = serializers.IntegerField(min_value=1_800, max_value=604_800, required=False)
    studios = serializers.ListField(child=serializers.UUIDField(), required=False)
    settings = serializers.DictField(required=False)


class FleetChangeSerializer(FleetOrderSerializer):
    """What of a fleet is to change."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class DecisionSerializer(serializers.ModelSerializer[FleetDecision]):
    """A launch, refusal, drain, end or alarm, with the numbers that led to it."""

    kind = serializers.ChoiceField(choices=KINDS)
    worker = serializers.UUIDField(source="worker_id", allow_null=True)
    sentence = serializers.SerializerMethodField()

    class Meta:
        model = FleetDecision
        fields = ["id", "fleet", "worker", "kind", "reason", "params", "sentence", "at"]

    def get_sentence(self, decision: FleetDecision) -> str:
        return sentence(decision)


class GaugeSerializer(serializers.Serializer[Any]):
    """What a slot's GPU did when the worker last spoke; null where the card does not tell."""

    index = serializers.IntegerField()
    gpu_use = serializers.FloatField(allow_null=True, help_text="0 to 1.")
    gpu_memory_mib = serializers.IntegerField(allow_null=True)
    power_w = serializers.FloatField(allow_null=True)


class WorkerSerializer(serializers.ModelSerializer[SeenWorker]):
    """One boot of one machine."""

    status = serializers.ChoiceField(choices=choices(WorkerStatus))
    gpu_model = serializers.SerializerMethodField(help_text="Empty: it renders on its CPU.")
    vram_mib = serializers.SerializerMethodField()
    slots = serializers.SerializerMethodField()
    gauges = serializers.SerializerMethodField()
    whose = serializers.SerializerMethodField(help_text="Whose work it does.")

    class Meta:
        model = SeenWorker
        fields = [
            "id",
            "fleet",
            "status",
            "cause",
            "whose",
            "gpu_model",
            "vram_mib",
            "slots",
            "gauges",
            "cores",
            "memory_mib",
            "disk_mib",
            "free_disk_mib",
            "software",
            "agent_version",
            "sandboxed",
            "instance_type",
            "zone",
            "market",
            "was_taken_back",
            "quarantined_at",
            "last_seen_at",
            "idle_since",
            "requested_at",
            "registered_at",
            "gone_at",
        ]

    def get_gpu_model(self, worker: SeenWorker) -> str:
        return str(worker.slots[0]["gpu_model"]) if worker.slots else ""

    def get_vram_mib(self, worker: SeenWorker) -> int:
        return int(worker.slots[0]["vram_mib"]) if worker.slots else 0

    def get_slots(self, worker: SeenWorker) -> int:
        return len(worker.slots)

    @extend_schema_field(GaugeSerializer(many=True))
    def get_gauges(self, worker: SeenWorker) -> list[dict[str, Any]]:
        return [{name: gauge.get(name) for name in GAUGES} for gauge in worker.slot_use]

    @extend_schema_field(serializers.ChoiceField(choices=["own", "others", "nobody"]))
    def get_whose(self, worker: SeenWorker) -> str:
        if worker.is_own:
            return "own"
        return "others" if worker.is_bound else "nobody"


class PoolSerializer(serializers.ModelSerializer[Pool]):
    """One instance type in one zone on one market: its price, what it gave and refused lately."""

    class Meta:
        model = Pool
        fields = [
            "id",
            "provider",
            "region",
            "instance_type",
            "zone",
            "market",
            "gpu",
            "slots",
            "vcpus",
            "memory_mib",
            "vram_mib",
            "price_micro",
            "on_demand_micro",
            "priced_at",
            "offered_at",
            "granted",
            "refused",
            "granted_at",
            "refused_at",
            "refused_until",
            "refusal",
            "sentence",
        ]


class LimitsSerializer(serializers.Serializer[Any]):
    """What no policy may exceed; null: no limit."""

    max_machines = serializers.IntegerField(min_value=0, max_value=MOST_MACHINES, allow_null=True, required=False)
    max_launches_per_hour = serializers.IntegerField(
        min_value=0, max_value=MOST_MACHINES, allow_null=True, required=False
    )
    max_micro_per_hour = serializers.IntegerField(min_value=0, max_value=MOST_MICRO, allow_null=True, required=False)
    max_micro_per_day = serializers.IntegerField(min_value=0, max_value=MOST_MICRO, allow_null=True, required=False)


class StandingSerializer(serializers.Serializer[Any]):
    """Where the farm stands against its limits; money in micro-dollars at the price paid, the day in UTC."""

    machines = serializers.IntegerField()
    launches_per_hour = serializers.IntegerField()
    micro_per_hour = serializers.IntegerField()
    micro_per_day = serializers.IntegerField()


class FarmSerializer(serializers.Serializer[Any]):
    """The whole farm. Null: only its operators see it."""

    is_paused = serializers.BooleanField(help_text="No machine is launched.")
    limits = LimitsSerializer(allow_null=True)
    standing = StandingSerializer(allow_null=True)
    reached = serializers.DictField(
        child=serializers.DateTimeField(), allow_null=True, help_text="Limits that leave no room, and since when."
    )


class GpuSerializer(serializers.Serializer[Any]):
    """A GPU. `speed` is relative to an NVIDIA L4; null: nobody measured."""

    model = serializers.CharField()
    vram_mib = serializers.IntegerField()
    speed = serializers.FloatField(allow_null=True)


class InstanceTypeSerializer(serializers.Serializer[Any]):
    """A kind of machine, and its price on demand by region in micro-dollars an hour."""

    provider = serializers.CharField()
    name = serializers.CharField()
    gpu = serializers.CharField()
    gpus = serializers.IntegerField()
    vcpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    on_demand_micro = serializers.DictField(child=serializers.IntegerField())


class SourceSerializer(serializers.Serializer[Any]):
    """Where a table of the catalogue comes from, and of which day."""

    table = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # a field, though DRF has a property of this name
    as_of = serializers.DateField()


class CatalogueSerializer(serializers.Serializer[Any]):
    """What there is to rent."""

    gpus = GpuSerializer(many=True)
    instance_types = InstanceTypeSerializer(many=True)
    sources = SourceSerializer(many=True)


def _fleets(request: Request) -> QuerySet[Any]:
    """Give the fleets as the caller may see them; an operator becomes one for the rest of the request."""
    asking = caller(request)
    if asking.user.is_operator:
        operating.become_operator(asking)
    return Fleet.objects.annotate(
        for_operator=Value(asking.user.is_operator, output_field=BooleanField()),
        asking=Value(asking.studio.id, output_field=UUIDField()),
    )


def _count_machines(fleets: Sequence[Any]) -> None:
    """Note on each of these fleets what machines it has; for an operator, what they cost."""
    live = Q(status__in=LIVE_WORKERS)
    counts = {
        "starting": Count("pk", filter=Q(status__in=STARTING_WORKERS)),
        "ready": Count("pk", filter=Q(status=WorkerStatus.READY)),
        "draining": Count("pk", filter=Q(status=WorkerStatus.DRAINING)),
        "own": Count("pk", filter=live & Q(is_own=True)),
        "others": Count("pk", filter=live & Q(is_own=False, is_bound=True)),
        "nobody": Count("pk", filter=live & Q(is_bound=False)),
    }
    seen = SeenWorker.objects.filter(fleet__in=fleets).order_by().values("fleet").annotate(**counts)
    by_fleet = {fleet: dict(zip(counts, found, strict=True)) for fleet, *found in seen.values_list("fleet", *counts)}
    paid = _paid([fleet for fleet in fleets if fleet.for_operator])
    for fleet in fleets:
        fleet.machines = by_fleet.get(fleet.pk) or dict.fromkeys(counts, 0)
        fleet.micro = paid.get(fleet.pk, 0) if fleet.for_operator else None


def _paid(fleets: Sequence[Fleet]) -> dict[UUID, int]:
    if not fleets:
        return {}
    present = Worker.objects.filter(fleet__in=fleets).exclude(status=WorkerStatus.GONE)
    return dict(present.order_by().values_list("fleet").annotate(Sum("price_micro")))


def _shown(request: Request, fleet_id: UUID) -> Any:
    fleet = _fleets(request).filter(pk=fleet_id).first()
    if fleet is None:
        raise NotFound(what="fleet", id=fleet_id)
    _count_machines([fleet])
    return FleetSerializer(fleet).data


class FleetsView(ApiView):
    """The farm's fleets."""

    scopes = {"GET": Scope.STUDIO_READ, "POST": Scope.STUDIO_WRITE}

    @extend_schema(
        responses=page_schema(FleetSerializer),
        operation_id="fleets_list",
        parameters=[OpenApiParameter("name", str, description="The whole name, in any case.")],
    )
    def get(self, request: Request) -> Response:
        """Give the fleets, with what runs, boots and drains in each."""
        by_name = {"name": lambda rows, value: rows.filter(name__iexact=value)}
        return page(
            request, _fleets(request), FleetSerializer, filters=by_name, newest_first=False, dress=_count_machines
        )

    @extend_schema(request=FleetOrderSerializer, responses={201: FleetSerializer}, operation_id="fleets_create")
    @once
    def post(self, request: Request) -> Response:
        """Say which machines to buy. Operators only."""
        operating.become_operator(caller(request))
        fleet = operating.create_fleet(caller(request), **self.parse(request, FleetOrderSerializer))
        return Response(_shown(request, fleet.id), status=201)


class FleetView(ApiView):
    """One fleet."""

    scopes = {"GET": Scope.STUDIO_READ, "PATCH": Scope.STUDIO_WRITE}

    @extend_schema(responses=FleetSerializer, operation_id="fleets_show")
    def get(self, request: Request, fleet_id: UUID) -> Response:
        """Give one fleet, with what runs, boots and drains in it."""
        return Response(_shown(request, fleet_id))

    @extend_schema(request=FleetChangeSerializer, responses=FleetSerializer, operation_id="fleets_change")
    def patch(self, request: Request, fleet_id: UUID) -> Response:
        """Change a fleet. Operators only."""
        operating.become_operator(caller(request))
        operating.change_fleet(caller(request), fleet_id, **self.parse(request, FleetChangeSerializer))
        return Response(_shown(request, fleet_id))


class FleetPauseView(ApiView):
    """Stop launching."""

    scopes = {"POST": Scope.STUDIO_WRITE}

    @extend_schema(request=None, responses=FleetSerializer, operation_id="fleets_pause")
    def post(self, request: Request, fleet_id: UUID) -> Response:
        """Launch nothing more for this fleet; what runs goes on. Operators only."""
        operating.become_operator(caller(request))
        operating.change_fleet(caller(request), fleet_id, is_paused=True)
        return Response(_shown(request, fleet_id))


class FleetResumeView(ApiView):
    """Launch again."""

    scopes = {"POST": Scope.STUDIO_WRITE}

    @extend_schema(request=None, responses=FleetSerializer, operation_id="fleets_resume")
    def post(self, request: Request, fleet_id: UUID) -> Response:
        """Let this fleet launch again. Operators only."""
        operating.become_operator(caller(request))
        operating.change_fleet(caller(request), fleet_id, is_paused=False)
        return Response(_shown(request, fleet_id))


class DecisionsView(ApiView):
    """What was decided for fleets."""

    scopes = {"GET": Scope.STUDIO_READ}

    @extend_schema(
        responses=page_schema(DecisionSerializer),
        operation_id="decisions_list",
        parameters=[
            OpenApiParameter("fleet", UUID, description="Only of this fleet."),
            OpenApiParameter("worker", UUID, description="Only about this worker."),
            OpenApiParameter("kind", str, description=f"One or several, by commas: {', '.join(KINDS)}."),
        ],
    )
    def get(self, request: Request) -> Response:
        """Give launches, refusals, drains, ends and alarms, newest first, with their reasons and numbers."""
        filters = {
            "fleet": by_id("fleet", "fleet"),
            "worker": by_id("worker_id", "worker"),
            "kind": by_choice("kind", "kind", list(KINDS)),
        }
        return page(request, FleetDecision.objects.all(), DecisionSerializer, filters=filters)


class WorkersView(ApiView):
    """The farm's machines."""

    scopes = {"GET": Scope.STUDIO_READ}

    @extend_schema(
        responses=page_schema(WorkerSerializer),
        operation_id="workers_list",
        parameters=[
            OpenApiParameter("fleet", UUID, description="Only of this fleet."),
            OpenApiParameter("status", str, description="One or several, by commas."),
        ],
    )
    def get(self, request: Request) -> Response:
        """Give the workers, newest first, with their GPUs, what these do, and what is wrong with them."""
        filters = {
            "fleet": by_id("fleet", "fleet"),
            "status": by_choice("status", "status", [str(s) for s in WorkerStatus]),
        }
        return page(request, SeenWorker.objects.all(), WorkerSerializer, filters=filters)


class WorkerView(ApiView):
    """One machine."""

    scopes = {"GET": Scope.STUDIO_READ}

    @extend_schema(responses=WorkerSerializer, operation_id="workers_show")
    def get(self, request: Request, worker_id: UUID) -> Response:
        """Give one worker."""
        return Response(_seen(worker_id))


class WorkerDrainView(ApiView):
    """Let a machine end."""

    scopes = {"POST": Scope.STUDIO_WRITE}

    @extend_schema(request=None, responses=WorkerSerializer, operation_id="workers_drain")
    def post(self, request: Request, worker_id: UUID) -> Response:
        """Let a worker finish what it has and end. Operators only."""
        operating.become_operator(caller(request))
        operating.drain_worker(caller(request), worker_id)
        return Response(_seen(worker_id))


def _seen(worker_id: UUID) -> Any:
    worker = SeenWorker.objects.filter(pk=worker_id).first()
    if worker is None:
        raise NotFound(what="worker", id=worker_id)
    return WorkerSerializer(worker).data


class PoolsView(ApiView):
    """What is remembered of pools."""

    scopes = {"GET": Scope.STUDIO_READ}

    @extend_schema(
        responses=page_schema(PoolSerializer),
        operation_id="pools_list",
        parameters=[OpenApiParameter("region", str), OpenApiParameter("instance_type", str)],
    )
    def get(self, request: Request) -> Response:
        """Give the pools that fleets may buy from: prices, what they gave and refused, when they are asked next."""
        filters = {
            "region": lambda rows, value: rows.filter(region=value),
            "instance_type": lambda rows, value: rows.filter(instance_type=value),
        }
        return page(request, Pool.objects.all(), PoolSerializer, filters=filters, newest_first=False)


class FarmView(ApiView):
    """The whole farm's limits."""

    scopes = {"GET": Scope.STUDIO_READ, "PATCH": Scope.STUDIO_WRITE}

    @extend_schema(responses=FarmSerializer, operation_id="farm_show")
    def get(self, request: Request) -> Response:
        """Say whether the farm is paused; to operators also its limits, and where it stands against them."""
        return Response(_farm(request))

    @extend_schema(request=LimitsSerializer, responses=FarmSerializer, operation_id="farm_change")
    def patch(self, request: Request) -> Response:
        """Set limits that no policy may exceed. Operators only."""
        operating.become_operator(caller(request))
        operating.set_limits(caller(request), **self.parse(request, LimitsSerializer))
        return Response(_farm(request))


class FarmPauseView(ApiView):
    """Stop launching."""

    scopes = {"POST": Scope.STUDIO_WRITE}

    @extend_schema(request=None, responses=FarmSerializer, operation_id="farm_pause")
    def post(self, request: Request) -> Response:
        """Launch nothing more, for no fleet; what runs goes on. Operators only."""
        operating.become_operator(caller(request))
        operating.pause_farm(caller(request), is_paused=True)
        return Response(_farm(request))


class FarmResumeView(ApiView):
    """Launch again."""

    scopes = {"POST": Scope.STUDIO_WRITE}

    @extend_schema(request=None, responses=FarmSerializer, operation_id="farm_resume")
    def post(self, request: Request) -> Response:
        """Let the farm launch again. Operators only."""
        operating.become_operator(caller(request))
        operating.pause_farm(caller(request), is_paused=False)
        return Response(_farm(request))


def _farm(request: Request) -> dict[str, Any]:
    asking = caller(request)
    if not asking.user.is_operator:
        return {"is_paused": is_farm_paused(), "limits": None, "standing": None, "reached": None}
    operating.become_operator(asking)
    farm = the_farm()
    return {
        "is_paused": farm.is_paused,
        "limits": LimitsSerializer(farm).data,
        "standing": StandingSerializer(standing(now=timezone.now())).data,
        "reached": farm.reached,
    }


class CatalogueView(ApiView):
    """What there is to rent."""

    scopes = {"GET": Scope.STUDIO_READ}

    @extend_schema(responses=CatalogueSerializer, operation_id="catalogue_show")
    def get(self, request: Request) -> Response:
        """Give GPUs with memory and render speed, and kinds of machine with prices, each table with its source."""
        prices: dict[tuple[str, str], dict[str, int]] = {}
        for (provider, region, name), micro in catalogue.prices().items():
            prices.setdefault((provider, name), {})[region] = micro
        return Response(
            {
                "gpus": [
                    {"model": g.model, "vram_mib": g.vram_mib, "speed": _rounded(catalogue.speed(g.model))}
                    for g in catalogue.gpus().values()
                ],
                "instance_types": [
                    {**vars(kind), "on_demand_micro": prices.get(key, {})}
                    for key, kind in catalogue.instance_types().items()
                ],
                "sources": [vars(source) for source in catalogue.sources()],
            }
        )


def _rounded(speed: float | None) -> float | None:
    return None if speed is None else round(speed, 3)


urls = [
    path("fleets", FleetsView.as_view()),
    path("fleets/<uuid:fleet_id>", FleetView.as_view()),
    path("fleets/<uuid:fleet_id>/pause", FleetPauseView.as_view()),
    path("fleets/<uuid:fleet_id>/resume", FleetResumeView.as_view()),
    path("decisions", DecisionsView.as_view()),
    path("workers", WorkersView.as_view()),
    path("workers/<uuid:worker_id>", WorkerView.as_view()),
    path("workers/<uuid:worker_id>/drain", WorkerDrainView.as_view()),
    path("pools", PoolsView.as_view()),
    path("farm", FarmView.as_view()),
    path("farm/pause", FarmPauseView.as_view()),
    path("farm/resume", FarmResumeView.as_view()),
    path("catalogue", CatalogueView.as_view()),
]
