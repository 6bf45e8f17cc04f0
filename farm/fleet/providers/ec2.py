"""
Amazon EC2 by boto3: instant fleets over many types and zones, on spot or on demand.

A launch has a launch template of its own, named after it, because its user data holds the launch's boot secret; then
come `CreateFleet` calls whose client tokens begin with it. Both may be repeated and happen once. Machines carry
farm, fleet and launch as tags: by these the farm finds again what it lost sight of.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import boto3
import botocore.exceptions as boto_errors
from botocore.config import Config
from botocore.parsers import ResponseParserError

from farm.core.errors import Invalid
from farm.fleet import catalogue
from farm.fleet.pools import Market, Pace, PoolKey
from farm.fleet.providers import (
    AnswerLost,
    FleetSpec,
    LaunchAnswer,
    LaunchRequest,
    Machine,
    NotToBeRepeated,
    PoolOffer,
    PoolRefusal,
    ProviderError,
    Unauthorized,
)
from farm.fleet.providers.ec2_errors import KNOWN, UNKNOWN, Quota, error_of
from farm.fleet.providers.ec2_template import TAG_FARM, TAG_LAUNCH, settings_of, tags_of, template_of

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_service_quotas import ServiceQuotasClient

# EC2's own defaults for an account and region: 1,000 instances at once, then two a second.
PACE = Pace(burst=1000, per_second=2.0)
CALL_MACHINES = 500  # of one CreateFleet: it answers only when all are decided
BATCH = 500  # ids in one call
HERE = ["pending", "running", "stopping", "stopped"]
STOPPED = {"stopping", "stopped"}
CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 2},
    connect_timeout=3,
    read_timeout=20,  # an instant fleet of 500 answers when all are decided; twice this is within a reconciler's minute
    user_agent_extra="farmhand",
)
UNANSWERED = (
    boto_errors.ConnectionError,  # cannot reach it
    boto_errors.HTTPClientError,  # the line was cut, or too slow
    ResponseParserError,  # it answered with something else
)
NO_CREDENTIALS = (boto_errors.NoCredentialsError, boto_errors.PartialCredentialsError, boto_errors.TokenRetrievalError)
_MISSING_ID = re.compile(r"\bi-[0-9a-f]+\b")


class Ec2Provider:
    """EC2 in one region. Credentials are boto3's: environment, profile or the machine's role."""

    name = "ec2"
    pace: Pace | None = PACE
    lag = timedelta(seconds=60)

    def __init__(self, region: str) -> None:
        self.region = region
        self._making = threading.Lock()
        self._clients: dict[str, Any] = {}

    def check(self, fleet: FleetSpec) -> None:
        settings_of(fleet)
        unknown = [t for t in fleet.instance_types if catalogue.instance_type("ec2", t) is None]
        if unknown:
            raise Invalid("instance_types", f"the catalogue has no EC2 type {unknown[0]!r}")
        if not _types_of(fleet):
            raise Invalid("gpu_models", "name instance types, or GPU models that an EC2 type has")

    def offers(self, fleet: FleetSpec) -> Sequence[PoolOffer]:
        """Give each wanted type in each zone that sells it, on the fleet's markets."""
        types = {t.name: t for t in _types_of(fleet)}
        pages = self._ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": sorted(types)}]
        )
        with self._asking():
            sold = sorted((o["InstanceType"], o["Location"]) for page in pages for o in page["InstanceTypeOfferings"])
        return [
            _offer(types[name], zone, market, self.region)
            for name, zone in sold
            if name in types and (not fleet.zones or zone in fleet.zones)
            for market in fleet.markets
        ]

    def launch(self, request: LaunchRequest) -> LaunchAnswer:
        """Make the launch's template, then ask for its machines, at most 500 a call."""
        if request.secret:
            self._make_template(request)
        machines: list[Machine] = []
        refusals: list[PoolRefusal] = []
        for part, count in enumerate(_parts(request.count)):
            try:
                answer = self._create_fleet(request, part, count)
            except AnswerLost:
                raise  # the whole launch is asked for again, and each part happens once
            except ProviderError as error:
                if not machines:
                    raise
                refusals += [PoolRefusal(pool, error) for pool in request.pools]  # what came is kept
                break
            machines += answer.machines
            refusals += answer.refusals
            if len(answer.machines) < count:
                break
        return LaunchAnswer(machines, refusals)

    def forget(self, launches: Sequence[UUID]) -> None:
        """Delete the launches' templates, and with them their user data."""
        for launch in launches:
            with self._asking(), _suppress("InvalidLaunchTemplateName.NotFoundException"):
                self._ec2.delete_launch_template(LaunchTemplateName=_template_name(launch))

    def terminate(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), BATCH):
            self._terminate(list(ids[start : start + BATCH]))

    def machines(self, farm: UUID) -> Sequence[Machine]:
        filters: Any = [
            {"Name": f"tag:{TAG_FARM}", "Values": [str(farm)]},
            {"Name": "instance-state-name", "Values": HERE},
        ]
        pages = self._ec2.get_paginator("describe_instances").paginate(
            Filters=filters, PaginationConfig={"PageSize": BATCH}
        )
        with self._asking():
            return [_machine(i) for page in pages for r in page["Reservations"] for i in r["Instances"]]

    def prices(self, pools: Sequence[PoolKey]) -> Mapping[PoolKey, int]:
        """Give the latest spot prices, and what the catalogue knows of prices on demand."""
        found = {}
        for pool in pools:
            known = catalogue.on_demand_micro("ec2", self.region, pool.instance_type)
            if pool.market is Market.ON_DEMAND and known is not None:
                found[pool] = known
        return found | self._spot_prices([p for p in pools if p.market is Market.SPOT])

    # --- asking

    def _make_template(self, request: LaunchRequest) -> None:
        """Make the launch's template; one of its name that is there already is its own."""
        with self._asking(), _suppress("InvalidLaunchTemplateName.AlreadyExistsException"):
            self._ec2.create_launch_template(
                ClientToken=str(request.launch), LaunchTemplateName=_template_name(request.launch),
                LaunchTemplateData=cast(Any, template_of(request)),
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": cast(Any, tags_of(request))}],
            )  # fmt: skip

    def _create_fleet(self, request: LaunchRequest, part: int, count: int) -> LaunchAnswer:
        settings = settings_of(request.fleet)
        market = request.pools[0].market
        overrides = [_override(pool, settings.subnets, request.fleet.price_cap_micro) for pool in request.pools]
        with self._asking(request.pools[0], count), _never_asked():
            answer = self._ec2.create_fleet(
                Type="instant",
                ClientToken=f"{request.launch}-{part}",
                LaunchTemplateConfigs=cast(
                    Any,
                    [
                        {
                            "LaunchTemplateSpecification": {
                                "LaunchTemplateName": _template_name(request.launch),
                                "Version": "1",
                            },
                            "Overrides": overrides,
                        }
                    ],
                ),
                TargetCapacitySpecification={
                    "TotalTargetCapacity": count,
                    "DefaultTargetCapacityType": cast(Any, str(market)),
                },
                SpotOptions={
                    "AllocationStrategy": "price-capacity-optimized",
                    "InstanceInterruptionBehavior": "terminate",
                },
                OnDemandOptions={"AllocationStrategy": "lowest-price"},
                TagSpecifications=[{"ResourceType": "fleet", "Tags": cast(Any, tags_of(request))}],
            )
        return self._read(request, answer, count)

    def _read(self, request: LaunchRequest, answer: Mapping[str, Any], count: int) -> LaunchAnswer:
        zones = {subnet: zone for zone, subnet in settings_of(request.fleet).subnets.items()}
        machines = [
            Machine(one, str(request.launch), _pool_of(found, found.get("Lifecycle"), zones))
            for found in answer.get("Instances", [])
            for one in found["InstanceIds"]
        ]
        refusals: dict[PoolKey, PoolRefusal] = {}
        for told in answer.get("Errors", []):
            pool = _pool_of(told, told.get("Lifecycle") or str(request.pools[0].market), zones)
            error = self._error(told["ErrorCode"], told.get("ErrorMessage", ""), pool, count - len(machines))
            refusals.setdefault(pool, PoolRefusal(pool, error))
        return LaunchAnswer(machines, list(refusals.values()))

    def _terminate(self, ids: list[str]) -> None:
        """End machines; EC2 refuses the whole call for one it has forgotten: then again without those it names."""
        while ids:
            try:
                with self._asking():
                    self._ec2.terminate_instances(InstanceIds=ids)
                return
            except _Gone as gone:
                left = [i for i in ids if i not in gone.ids]
                if len(left) == len(ids):
                    raise ProviderError(provider="ec2", why=str(gone)) from None
                ids = left

    def _spot_prices(self, pools: Sequence[PoolKey]) -> dict[PoolKey, int]:
        if not pools:
            return {}
        wanted = {(p.instance_type, p.zone): p for p in pools}
        pages = self._ec2.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=cast(Any, sorted({p.instance_type for p in pools})),
            ProductDescriptions=["Linux/UNIX"],
            StartTime=datetime.now(UTC),  # the price in force at that moment, for each type and zone
        )
        latest: dict[PoolKey, tuple[datetime, int]] = {}
        with self._asking():
            for told in (row for page in pages for row in page["SpotPriceHistory"]):
                pool = wanted.get((told["InstanceType"], told["AvailabilityZone"]))
                price = told["Timestamp"], round(float(told["SpotPrice"]) * catalogue.MICRO)
                if pool and (pool not in latest or price[0] > latest[pool][0]):
                    latest[pool] = price
        return {pool: micro for pool, (_, micro) in latest.items()}

    # --- what may go wrong

    @contextmanager
    def _asking(self, pool: PoolKey | None = None, count: int = 0) -> Iterator[None]:
        """Turn what boto3 raises into errors by what to do next."""
        try:
            yield
        except boto_errors.ClientError as refused:
            code, message = _told(refused)
            if code in UNKNOWN or (_status(refused) >= 500 and code not in KNOWN):
                raise AnswerLost(provider="ec2", why=f"{code}: {message}") from refused
            if code.startswith("InvalidInstanceID"):
                raise _Gone(message) from None
            raise self._error(code, message, pool or PoolKey("", "", Market.ON_DEMAND), count) from refused
        except NO_CREDENTIALS as error:
            raise Unauthorized(provider="ec2", why=str(error)) from error
        except UNANSWERED as error:
            raise AnswerLost(provider="ec2", why=str(error)) from error
        except boto_errors.BotoCoreError as error:
            raise ProviderError(provider="ec2", why=str(error)) from error

    def _error(self, code: str, message: str, pool: PoolKey, count: int) -> ProviderError:
        return error_of(code, message, pool=pool, count=max(1, count), region=self.region, limit_of=self._limit_of)

    def _limit_of(self, quota: Quota) -> float | None:
        """Ask what a quota is at present; without the right to ask, nobody knows."""
        try:
            client: ServiceQuotasClient = self._client("service-quotas")
            return client.get_service_quota(ServiceCode="ec2", QuotaCode=quota.code)["Quota"]["Value"]
        except (boto_errors.ClientError, boto_errors.BotoCoreError, KeyError):
            return None

    @property
    def _ec2(self) -> EC2Client:
        return cast("EC2Client", self._client("ec2"))

    def _client(self, service: str) -> Any:
        with self._making:  # making a client is not thread-safe, using it is
            if service not in self._clients:
                session = boto3.session.Session()
                self._clients[service] = cast(Any, session).client(service, region_name=self.region, config=CONFIG)
            return self._clients[service]


class _Gone(Exception):
    """EC2 has forgotten these machines."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.ids = frozenset(_MISSING_ID.findall(message))


@contextmanager
def _suppress(code: str) -> Iterator[None]:
    """Take one error code for success: what was wanted is so already."""
    try:
        yield
    except boto_errors.ClientError as refused:
        if _told(refused)[0] != code:
            raise


@contextmanager
def _never_asked() -> Iterator[None]:
    """A template that is not there: the launch came no further, and its secret is gone with the process that had it."""
    try:
        yield
    except boto_errors.ClientError as refused:
        code, message = _told(refused)
        if code.startswith("InvalidLaunchTemplateName"):
            raise NotToBeRepeated(provider="ec2", why=message) from refused
        raise


def _told(refused: boto_errors.ClientError) -> tuple[str, str]:
    error = refused.response.get("Error", {})
    return str(error.get("Code", "")), str(error.get("Message", ""))


def _status(refused: boto_errors.ClientError) -> int:
    return int(cast(Any, refused.response).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _types_of(fleet: FleetSpec) -> list[catalogue.InstanceType]:
    """Give the types a fleet names, or all that have its GPUs."""
    if fleet.instance_types:
        return [t for name in fleet.instance_types if (t := catalogue.instance_type("ec2", name))]
    return catalogue.types_with("ec2", fleet.gpu_models)


def _offer(kind: catalogue.InstanceType, zone: str, market: Market, region: str) -> PoolOffer:
    gpu = catalogue.gpu(kind.gpu)
    return PoolOffer(
        pool=PoolKey(kind.name, zone, market),
        gpu=kind.gpu,
        slots=kind.slots,
        vcpus=kind.vcpus,
        memory_mib=kind.memory_mib,
        vram_mib=gpu.vram_mib if gpu else 0,
        on_demand_micro=catalogue.on_demand_micro("ec2", region, kind.name),
    )


def _parts(count: int) -> Iterator[int]:
    while count > 0:
        yield min(count, CALL_MACHINES)
        count -= CALL_MACHINES


def _template_name(launch: UUID) -> str:
    return f"farmhand-{launch}"


def _override(pool: PoolKey, subnets: Mapping[str, str], cap_micro: int | None) -> dict[str, str]:
    """Name a pool; what a spot machine may cost is capped, so that a price that doubles ends it instead of us."""
    place = {"SubnetId": subnets[pool.zone]} if pool.zone in subnets else {"AvailabilityZone": pool.zone}
    kind = catalogue.instance_type("ec2", pool.instance_type)
    if cap_micro is None or pool.market is not Market.SPOT or kind is None:
        return {"InstanceType": pool.instance_type, **place}
    most = cap_micro * kind.slots / catalogue.MICRO
    return {"InstanceType": pool.instance_type, "MaxPrice": f"{most:.6f}", **place}


def _pool_of(told: Mapping[str, Any], lifecycle: str | None, zones: Mapping[str, str]) -> PoolKey:
    """Read which pool an instance or error of `CreateFleet` is about."""
    override = told.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    zone = told.get("AvailabilityZone") or override.get("AvailabilityZone") or zones.get(override.get("SubnetId"), "")
    return PoolKey(told.get("InstanceType") or override.get("InstanceType", ""), zone, Market(lifecycle or "on-demand"))


def _machine(told: Mapping[str, Any]) -> Machine:
    tags = {tag["Key"]: tag["Value"] for tag in told.get("Tags", [])}
    market = Market.SPOT if told.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND
    pool = PoolKey(told["InstanceType"], told["Placement"]["AvailabilityZone"], market)
    return Machine(told["InstanceId"], tags.get(TAG_LAUNCH, ""), pool, told["State"]["Name"] not in STOPPED)


connect: Callable[[str], Ec2Provider] = Ec2Provider
