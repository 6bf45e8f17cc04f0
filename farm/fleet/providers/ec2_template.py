"""What an EC2 machine of the farm is: its launch template, user data and tags. No connection."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from django.conf import settings as farm_settings

from farm.core.errors import Invalid
from farm.fleet.providers import FleetSpec, LaunchRequest

TAG_FARM, TAG_FLEET, TAG_LAUNCH, TAG_STUDIO = (f"farmhand:{word}" for word in ("farm", "fleet", "launch", "studio"))
MOST_USER_DATA = 16 * 1024  # bytes, EC2's limit


@dataclass(frozen=True)
class Ec2Settings:
    """The `settings` of a fleet whose provider is `ec2`."""

    image: str = ""  # an AMI with what infra/aws/README.md lists
    subnets: Mapping[str, str] = field(default_factory=dict)  # by zone; the zone's default one unless named
    security_groups: list[str] = field(default_factory=list)
    root_device: str = "/dev/sda1"  # as the image has it
    disk_gib: int = 150
    cache_gib: int = 100
    agent: Mapping[str, str] = field(default_factory=dict)  # more of the agent's settings: {"BLENDER": "/opt/…"}


def settings_of(fleet: FleetSpec) -> Ec2Settings:
    """
    Read a fleet's settings.

    :raises Invalid: the image is missing, a setting is unknown or of the wrong kind
    """
    known = {f.name: f for f in fields(Ec2Settings)}
    kinds = {"subnets": dict, "agent": dict, "security_groups": list, "disk_gib": int, "cache_gib": int}
    for name, value in fleet.settings.items():
        if name not in known:
            raise Invalid(f"settings.{name}", f"there is no such setting; known: {', '.join(known)}")
        if not isinstance(value, kinds.get(name, str)):
            raise Invalid(f"settings.{name}", f"{value!r} is not of the kind {kinds.get(name, str).__name__}")
    found = Ec2Settings(**fleet.settings)
    if not found.image.startswith("ami-"):
        raise Invalid("settings.image", "name the image (AMI) that the machines start from")
    if bad := [name for name in found.agent if not re.fullmatch("[A-Z][A-Z_]*", name)]:
        raise Invalid("settings.agent", f"{bad[0]!r} is no name of an agent's setting, such as CACHE_GIB")
    if not 0 < found.cache_gib < found.disk_gib <= 16_384:
        raise Invalid("settings.disk_gib", "the disk must be larger than the cache, and at most 16,384 GiB")
    return found


def template_of(request: LaunchRequest) -> dict[str, Any]:
    """
    Give the launch template: terminated at shutdown, metadata by session only, disks encrypted, no key, no role.

    A machine holds no cloud credential and nobody can log in; its security groups should let nothing in.
    """
    settings = settings_of(request.fleet)
    tags = tags_of(request)
    disk = {"VolumeSize": settings.disk_gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    template: dict[str, Any] = {
        "ImageId": settings.image,
        "UserData": base64.b64encode(user_data(request)).decode(),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [{"DeviceName": settings.root_device, "Ebs": disk}],
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
    }
    if settings.security_groups:
        template["SecurityGroupIds"] = settings.security_groups
    return template


def tags_of(request: LaunchRequest) -> list[dict[str, str]]:
    """Give the tags of all that a launch makes."""
    tags = {
        "Name": f"farmhand {request.fleet.name}",
        TAG_FARM: str(request.farm),
        TAG_FLEET: request.fleet.name,
        TAG_LAUNCH: str(request.launch),
    }
    if request.studio:
        tags[TAG_STUDIO] = str(request.studio)
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def user_data(request: LaunchRequest) -> bytes:
    """
    Give the script a machine runs first: `infra/aws/boot.sh` with its values set in front.

    :raises Invalid: it would be larger than EC2 takes
    """
    settings = settings_of(request.fleet)
    values = {
        "FARM_URL": request.farm_url,
        "BOOT_SECRET": request.secret,
        "BOOT_TIMEOUT_S": request.boot_timeout_s,
        "MAX_LIFE_S": request.max_life_s,
        "FARMHAND_CACHE_GIB": settings.cache_gib,
        **{f"FARMHAND_{name}": value for name, value in settings.agent.items()},
    }
    first, _, rest = Path(farm_settings.FARM_BOOT_SCRIPT).read_text(encoding="utf-8").partition("\n")
    lines = [first, *(f"{name}={shlex.quote(str(value))}" for name, value in values.items())]
    exported = "export " + " ".join(name for name in values if name.startswith("FARMHAND_"))
    script = "\n".join([*lines, exported, rest]).encode()
    if len(script) > MOST_USER_DATA:
        raise Invalid("settings.agent", f"the boot script has {len(script)} bytes; EC2 takes {MOST_USER_DATA}")
    return script
