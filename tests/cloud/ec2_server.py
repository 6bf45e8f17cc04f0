"""
A server that answers like EC2 where it hurts: the calls the farm makes, EC2's limits, and faults on order.

Query protocol over HTTP; the region is read from the request's signature. What is kept apart from the HTTP: `Cloud`,
the state of an account. Its clock is given, so that hours pass in a moment. What it shares with moto is tested against
both.

Limits as documented: instances of a region come out of a bucket of 1,000, refilled by 2 a second; each kind of call has
a bucket of its own. A client token gives the same answer again, or IdempotentParameterMismatch.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

PENDING_S = 5.0  # from the launch until an instance is said to run
PAGE = 1000
GONE_AFTER_S = 3600.0  # a terminated instance is shown for so long


class Refused(Exception):
    """An error as EC2 answers it."""

    def __init__(self, code: str, message: str = "", status: int = 400) -> None:
        super().__init__(code)
        self.code, self.message, self.status = code, message or f"{code} (said the fault server)", status


@dataclass
class Bucket:
    """Tokens that come back with time."""

    size: float
    per_second: float
    level: float = -1.0
    at: float = 0.0

    def take(self, count: float, now: float) -> bool:
        if self.level < 0:
            self.level = self.size
        self.level = min(self.size, self.level + (now - self.at) * self.per_second)
        self.at = now
        if count > self.level:
            return False
        self.level -= count
        return True


@dataclass
class Instance:
    id: str
    region: str
    type: str
    zone: str
    lifecycle: str
    tags: dict[str, str]
    user_data: str
    launched_at: float
    template: Mapping[str, Any]
    ended_at: float | None = None
    reason: str = ""

    def state(self, now: float) -> str:
        if self.ended_at is not None:
            return "terminated"
        return "pending" if now < self.launched_at + PENDING_S else "running"


Pool = tuple[str, str, str]  # type, zone, spot | on-demand


@dataclass
class Cloud:
    """An account: what it has, what it may have, and what goes wrong."""

    clock: Callable[[], float] = time.monotonic
    zones: tuple[str, ...] = ("a", "b", "c")
    prices: dict[Pool, float] = field(default_factory=dict)  # of spot pools; 0.3 unless said
    capacity: dict[Pool, int] = field(default_factory=dict)  # machines a pool has left; plenty unless said
    quotas: dict[str, float] = field(default_factory=dict)  # vCPUs by quota code; plenty unless said
    vcpus: dict[str, int] = field(default_factory=dict)  # by type; 4 unless said
    forbidden: set[str] = field(default_factory=set)  # actions
    lost: Counter[str] = field(default_factory=Counter)  # answers to lose, by action: done, then the line is cut
    broken: Counter[str] = field(default_factory=Counter)  # answers that are 500 though the work is done
    throttled: Counter[str] = field(default_factory=Counter)  # requests to refuse, whatever the buckets say
    lag_s: float = 0.0  # how far DescribeInstances is behind
    bucket_size: float = 1000
    bucket_per_second: float = 2
    instances: dict[str, Instance] = field(default_factory=dict)
    templates: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    answers: dict[tuple[str, str], tuple[str, Any]] = field(default_factory=dict)  # by region and client token
    calls: Counter[str] = field(default_factory=Counter)
    asked_at: list[float] = field(default_factory=list)  # by the performance counter
    refused: Counter[str] = field(default_factory=Counter)
    launched: int = 0
    unheard: int = 0  # answers that were lost, or said to be errors, though the work was done
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._instance_buckets: dict[str, Bucket] = defaultdict(
            lambda: Bucket(self.bucket_size, self.bucket_per_second)
        )
        self._request_buckets: dict[tuple[str, str], Bucket] = {}

    def live(self) -> list[Instance]:
        return [i for i in self.instances.values() if i.ended_at is None]

    def end(self, instance: Instance, reason: str) -> None:
        """End an instance from the cloud's side, as an interruption does."""
        instance.ended_at, instance.reason = self.clock(), reason

    # --- the calls

    def answer(self, region: str, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a call, or refuse it."""
        with self.lock:
            self.calls[action] += 1
            self.asked_at.append(time.perf_counter())
            if action in self.forbidden:
                raise Refused("UnauthorizedOperation", "You are not authorized to perform this operation.", 403)
            if self.throttled[action] > 0 or not self._bucket(region, action).take(1, self.clock()):
                self.throttled[action] -= 1
                raise Refused("RequestLimitExceeded", "Request limit exceeded.", 503)
            token = asked.get("ClientToken")
            if token is None:
                return self._do(region, action, asked)
            key, said = (region, f"{action} {token}"), json.dumps(asked, sort_keys=True)
            if key not in self.answers:
                self.answers[key] = (said, self._do(region, action, asked))
            first, answer = self.answers[key]
            if first != said:
                raise Refused("IdempotentParameterMismatch")
            return answer  # type: ignore[no-any-return]

    def _bucket(self, region: str, action: str) -> Bucket:
        size, rate = (100, 20) if action.startswith("Describe") else (50, 5)
        return self._request_buckets.setdefault((region, action), Bucket(size, rate))

    def _do(self, region: str, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        act = getattr(self, "_" + re.sub("(?<!^)(?=[A-Z])", "_", action).lower(), None)
        if act is None:
            raise Refused("InvalidAction", f"The action {action} is not valid.")
        return act(region, asked)  # type: ignore[no-any-return]

    def _create_launch_template(self, region: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        name = asked["LaunchTemplateName"]
        if (region, name) in self.templates:
            raise Refused("InvalidLaunchTemplateName.AlreadyExistsException", f"{name} already in use.")
        self.templates[region, name] = asked["LaunchTemplateData"]
        return {"launchTemplate": {"launchTemplateId": f"lt-{len(self.templates):017x}", "launchTemplateName": name}}

    def _delete_launch_template(self, region: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self.templates.pop((region, asked["LaunchTemplateName"]), None) is None:
            raise Refused("InvalidLaunchTemplateName.NotFoundException")
        return {"launchTemplate": {"launchTemplateName": asked["LaunchTemplateName"]}}

    def _create_fleet(self, region: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        config = asked["LaunchTemplateConfigs"][0]
        template = self.templates.get((region, config["LaunchTemplateSpecification"]["LaunchTemplateName"]))
        if template is None:
            raise Refused("InvalidLaunchTemplateName.NotFoundException")
        wanted = int(asked["TargetCapacitySpecification"]["TotalTargetCapacity"])
        lifecycle = asked["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
        if not self._instance_buckets[region].take(wanted, self.clock()):
            raise Refused("RequestLimitExceeded", "Request limit exceeded.", 503)
        started: list[Instance] = []
        errors: list[dict[str, Any]] = []
        for override in self._in_order(region, config["Overrides"], lifecycle):
            pool = override["InstanceType"], self._zone(region, override), lifecycle
            count = wanted - len(started)
            if count and (error := self._why_not(pool, override)):
                errors.append(_error(override, lifecycle, error))
                continue
            granted = min(count, self._left(pool))
            started += [self._start(region, pool, template) for _ in range(granted)]
            if granted < count:
                errors.append(_error(override, lifecycle, "InsufficientInstanceCapacity"))
        self._instance_buckets[region].level += wanted - len(started)  # only what is launched counts
        by_pool: dict[tuple[str, str], list[Instance]] = defaultdict(list)
        for one in started:
            by_pool[one.type, one.zone].append(one)
        return {
            "fleetId": f"fleet-{next(self._numbers):08x}",
            "fleetInstanceSet": [
                {
                    "launchTemplateAndOverrides": {"overrides": {"instanceType": kind, "availabilityZone": zone}},
                    "lifecycle": lifecycle, "instanceIds": [i.id for i in found], "instanceType": kind,
                }
                for (kind, zone), found in by_pool.items()
            ],
            "errorSet": errors if len(started) < wanted else [],
        }  # fmt: skip

    def _in_order(self, region: str, overrides: list[dict[str, str]], lifecycle: str) -> list[dict[str, str]]:
        """Deep pools first, then cheap ones: what price-capacity-optimized comes to."""

        def rank(override: dict[str, str]) -> tuple[bool, float]:
            pool = override["InstanceType"], self._zone(region, override), lifecycle
            return self._left(pool) < 20, self.prices.get(pool, 0.3)

        return sorted(overrides, key=rank)

    def _zone(self, region: str, override: Mapping[str, str]) -> str:
        if subnet := override.get("SubnetId"):  # subnet-us-east-1a is in us-east-1a
            return subnet.removeprefix("subnet-")
        return override["AvailabilityZone"]

    def _left(self, pool: Pool) -> int:
        return self.capacity.get(pool, 1_000_000)

    def _why_not(self, pool: Pool, override: Mapping[str, str]) -> str:
        kind, _, lifecycle = pool
        if lifecycle == "spot" and float(override.get("MaxPrice", 99)) < self.prices.get(pool, 0.3):
            return "SpotMaxPriceTooLow"
        used = sum(self.vcpus.get(i.type, 4) for i in self.live() if (i.lifecycle == "spot") == (lifecycle == "spot"))
        if used + self.vcpus.get(kind, 4) > self.quotas.get(_quota_code(kind, lifecycle), 1e9):
            return "MaxSpotInstanceCountExceeded" if lifecycle == "spot" else "VcpuLimitExceeded"
        return "" if self._left(pool) else "InsufficientInstanceCapacity"

    def _start(self, region: str, pool: Pool, template: Mapping[str, Any]) -> Instance:
        kind, zone, lifecycle = pool
        if pool in self.capacity:
            self.capacity[pool] -= 1
        tags = {
            tag["Key"]: tag["Value"]
            for spec in template.get("TagSpecification", [])
            if spec["ResourceType"] == "instance"
            for tag in spec["Tag"]
        }
        made = Instance(
            id=f"i-{next(self._numbers):017x}", region=region, type=kind, zone=zone, lifecycle=lifecycle, tags=tags,
            user_data=base64.b64decode(template.get("UserData", "")).decode(), launched_at=self.clock(),
            template=template,
        )  # fmt: skip
        self.instances[made.id] = made
        self.launched += 1
        return made

    def _describe_instances(self, region: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        now = self.clock()
        filters = {f["Name"]: f["Value"] for f in asked.get("Filter", [])}
        found = [
            i
            for i in self.instances.values()
            if i.region == region
            and i.launched_at <= now - self.lag_s
            and (i.ended_at is None or now - i.ended_at < GONE_AFTER_S)
            and i.state(now) in filters.get("instance-state-name", [i.state(now)])
            and all(i.tags.get(n[4:]) in values for n, values in filters.items() if n.startswith("tag:"))
        ]
        return _page(asked, "reservationSet", [{"instancesSet": [_shown(i, now)]} for i in found])

    def _terminate_instances(self, region: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        ids = asked["InstanceId"]
        if unknown := [i for i in ids if i not in self.instances]:
            named = ", ".join(unknown)
            few = f"ID '{named}' does" if len(unknown) == 1 else f"IDs '{named}' do"
            raise Refused("InvalidInstanceID.NotFound", f"The instance {few} not exist")
        for one in ids:
            if self.instances[one].ended_at is None:
                self.end(self.instances[one], "Client.UserInitiatedShutdown")
        return {"instancesSet": [{"instanceId": i, "currentState": {"name": "shutting-down"}} for i in ids]}

    def _describe_instance_type_offerings(self, region: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        types = next(f["Value"] for f in asked["Filter"] if f["Name"] == "instance-type")
        rows = [
            {"instanceType": kind, "locationType": "availability-zone", "location": f"{region}{zone}"}
            for kind in types
            for zone in self.zones
        ]
        return _page(asked, "instanceTypeOfferingSet", rows)

    def _describe_spot_price_history(self, region: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        rows = [
            {
                "instanceType": kind, "availabilityZone": f"{region}{zone}", "productDescription": "Linux/UNIX",
                "spotPrice": f"{self.prices.get((kind, f'{region}{zone}', 'spot'), 0.3):.6f}", "timestamp": at,
            }
            for kind in asked["InstanceType"]
            for zone in self.zones
        ]  # fmt: skip
        return _page(asked, "spotPriceHistorySet", rows)


def _quota_code(kind: str, lifecycle: str) -> str:
    return "L-3819A6DF" if lifecycle == "spot" else "L-DB2E81BA"


def _error(override: Mapping[str, str], lifecycle: str, code: str) -> dict[str, Any]:
    place = {"instanceType": override["InstanceType"]}
    if zone := override.get("AvailabilityZone"):
        place["availabilityZone"] = zone
    if subnet := override.get("SubnetId"):
        place["subnetId"] = subnet
    about = {"overrides": place}
    return {"launchTemplateAndOverrides": about, "lifecycle": lifecycle, "errorCode": code, "errorMessage": f"{code}."}


def _shown(instance: Instance, now: float) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "instanceId": instance.id,
        "instanceType": instance.type,
        "instanceState": {"code": 16, "name": instance.state(now)},
        "placement": {"availabilityZone": instance.zone},
        "tagSet": [{"key": k, "value": v} for k, v in instance.tags.items()],
        "stateReason": {"code": instance.reason},
    }
    return shown | ({"instanceLifecycle": "spot"} if instance.lifecycle == "spot" else {})


def _page(asked: Mapping[str, Any], name: str, rows: list[Any]) -> dict[str, Any]:
    start, size = int(asked.get("NextToken", 0)), int(asked.get("MaxResults", PAGE))
    more = {"nextToken": str(start + size)} if start + size < len(rows) else {}
    return {name: rows[start : start + size], **more}


# --- HTTP


def read_query(body: str) -> dict[str, Any]:
    """Read EC2's flat parameters (`Filter.1.Value.2`) as nested values; numbered ones become lists."""
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(body, keep_blank_values=True):
        here = tree
        *parents, last = name.split(".")
        for parent in parents:
            here = here.setdefault(parent, {})
        here[last] = value
    return {name: _listed(value) for name, value in tree.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if all(key.isdigit() for key in value):
        return [_listed(value[key]) for key in sorted(value, key=int)]
    return {key: _listed(inner) for key, inner in value.items()}


def write_xml(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"<{name}>"
            yield from write_xml(inner)
            yield f"</{name}>"
    elif isinstance(value, list):
        for inner in value:
            yield "<item>"
            yield from write_xml(inner)
            yield "</item>"
    else:
        yield escape(str(value))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloud: Cloud

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        _, _, region, service, _ = self.headers["Authorization"].partition("Credential=")[2].split(",")[0].split("/")
        if service == "servicequotas":
            return self._quota(json.loads(body))
        asked = read_query(body)
        action = asked.pop("Action")
        asked.pop("Version")
        try:
            answer = self.cloud.answer(region, action, asked)
        except Refused as refused:
            self.cloud.refused[refused.code] += 1
            return self._refuse(refused)
        if self._takes(self.cloud.lost, action):
            self.close_connection = True  # done, and nobody hears of it
            return None
        if self._takes(self.cloud.broken, action):
            return self._refuse(Refused("InternalError", "An internal error has occurred", 500))
        inner = "".join(write_xml(answer))
        return self._send(
            200, f'<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">{inner}</{action}Response>'
        )

    def _takes(self, faults: Counter[str], action: str) -> bool:
        with self.cloud.lock:
            if faults[action] <= 0:
                return False
            faults[action] -= 1
            self.cloud.unheard += 1
            return True

    def _quota(self, asked: Mapping[str, str]) -> None:
        value = self.cloud.quotas.get(asked["QuotaCode"])
        if value is None:
            return self._send(400, json.dumps({"__type": "NoSuchResourceException"}), "application/x-amz-json-1.1")
        body = json.dumps({"Quota": {"QuotaCode": asked["QuotaCode"], "Value": value}})
        return self._send(200, body, "application/x-amz-json-1.1")

    def _refuse(self, refused: Refused) -> None:
        error = f"<Code>{refused.code}</Code><Message>{escape(refused.message)}</Message>"
        self._send(
            refused.status, f"<Response><Errors><Error>{error}</Error></Errors><RequestID>r</RequestID></Response>"
        )

    def _send(self, status: int, text: str, kind: str = "text/xml") -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


class Ec2Server:
    """The cloud behind an address, for as long as it is held open."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        handler = type("Handler", (_Handler,), {"cloud": cloud})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What points boto3 here."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
