"""EC2's error codes, by what to do next. No connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farm.fleet import catalogue
from farm.fleet.pools import Market, PoolKey
from farm.fleet.providers import InsufficientCapacity, ProviderError, QuotaExceeded, Throttled, Unauthorized

RETRY_AFTER_S = 5

NO_CAPACITY = {
    "InsufficientInstanceCapacity",
    "InsufficientCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "UnfulfillableCapacity",
    "SpotMaxPriceTooLow",
    "Unsupported",  # this type is not sold in this zone
    "UnsupportedOperation",
}
OVER_QUOTA = {
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "InstanceLimitExceeded",
    "MaxFleetCountExceeded",
    "MaxSpotFleetRequestCountExceeded",
    "VolumeLimitExceeded",
    "MaxIOPSLimitExceeded",
}
THROTTLED = {
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "EC2ThrottledException",
    "RequestThrottled",
    "TooManyRequestsException",
    "SlowDown",
}
FORBIDDEN = {
    "UnauthorizedOperation",
    "AuthFailure",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "AccessDenied",
    "AccessDeniedException",
    "OptInRequired",
    "PendingVerification",
    "Blocked",
    "UnrecognizedClientException",
}
KNOWN = NO_CAPACITY | OVER_QUOTA | THROTTLED | FORBIDDEN  # refused for certain, though the status may be 5xx
# Whether it was done is not known: the server failed after it had heard.
UNKNOWN = {"InternalError", "InternalFailure", "ServerInternal", "Unavailable", "ServiceUnavailable"}

_FAMILIES = (("p", "P"), ("g", "G and VT"), ("vt", "G and VT"))
_QUOTAS = {
    ("G and VT", Market.SPOT): ("All G and VT Spot Instance Requests", "L-3819A6DF"),
    ("G and VT", Market.ON_DEMAND): ("Running On-Demand G and VT instances", "L-DB2E81BA"),
    ("P", Market.SPOT): ("All P Spot Instance Requests", "L-7212CCBC"),
    ("P", Market.ON_DEMAND): ("Running On-Demand P instances", "L-417A185B"),
    ("Standard", Market.SPOT): ("All Standard Spot Instance Requests", "L-34B43A08"),
    ("Standard", Market.ON_DEMAND): ("Running On-Demand Standard instances", "L-1216C47A"),
}


@dataclass(frozen=True)
class Quota:
    """A quota of vCPUs, as the Service Quotas console lists it."""

    name: str
    code: str


def quota_of(pool: PoolKey) -> Quota:
    """Give the quota that a pool's machines count against."""
    family = next((kind for prefix, kind in _FAMILIES if pool.instance_type.startswith(prefix)), "Standard")
    return Quota(*_QUOTAS[family, pool.market])


def error_of(
    code: str, message: str, *, pool: PoolKey, count: int, region: str, limit_of: Callable[[Quota], float | None]
) -> ProviderError:
    """Give the typed error for one of EC2's codes, for `count` machines of a pool."""
    why = f"{code}: {' '.join(message.split())[:300]}"
    if code in NO_CAPACITY:
        return InsufficientCapacity(provider="ec2", why=f"{pool}: {why}")
    if code in THROTTLED:
        return Throttled(provider="ec2", retry_after=RETRY_AFTER_S, why=why)
    if code in FORBIDDEN:
        return Unauthorized(provider="ec2", why=why)
    if code in OVER_QUOTA:
        return _over_quota(code, pool, count, region, limit_of)
    return ProviderError(provider="ec2", why=why)


def _over_quota(
    code: str, pool: PoolKey, count: int, region: str, limit_of: Callable[[Quota], float | None]
) -> ProviderError:
    quota, known = quota_of(pool), catalogue.instance_type("ec2", pool.instance_type)
    limit = limit_of(quota)
    return QuotaExceeded(
        provider="ec2",
        quota=f"{quota.name} ({quota.code}, {code})",
        limit=f"{limit:g} vCPUs" if limit is not None else "fewer vCPUs",
        needed=f"{count * known.vcpus if known else count} more",
        where=f"https://{region}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{quota.code}",
    )
