"""
Make `farm/fleet/catalogue/{instance_types,prices}.csv` anew: what EC2 rents, with which GPUs, at what price on demand.

    python -m infra.aws.catalogue --prices apache_libcloud-3.9.1-py3-none-any.whl

Machine types come from moto's copy of `describe_instance_types`, prices from the `pricing.json` in a libcloud wheel.
That file has holes (0.0) and mixes in prices of dedicated hosts (10 % more). Within a family a region's prices are the
base price times one factor, so both are mended, and each mended price says so. `gpus.csv` is kept by hand.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import statistics
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "farm/fleet/catalogue"
GPU_FAMILIES = ("g4dn", "g5", "g6", "gr6", "g6e", "g7", "g7e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200")
CPU_FAMILIES = ("c6i", "c7a", "m7i")
CPU_SIZES = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")
BASE_REGIONS = ("us-east-1", "us-east-2", "us-west-2")  # one price list
OTHER_REGIONS = (
    "ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ca-central-1",
    "eu-central-1", "eu-north-1", "eu-south-2", "eu-west-1", "eu-west-2", "sa-east-1",
)  # fmt: skip
DEDICATED = 1.1  # what a dedicated host costs more
CLOSE = 0.004

# EC2's word for a GPU, with its memory in GiB → what NVIDIA's library calls it
NAMES = {
    ("T4", 16): "Tesla T4",
    ("A10G", 22): "NVIDIA A10G",
    ("L4", 22): "NVIDIA L4",
    ("L40S", 44): "NVIDIA L40S",
    ("V100", 32): "Tesla V100-SXM2-32GB",
    ("A100", 40): "NVIDIA A100-SXM4-40GB",
    ("A100", 80): "NVIDIA A100-SXM4-80GB",
    ("H100", 80): "NVIDIA H100 80GB HBM3",
    ("H200", 141): "NVIDIA H200",
    ("B200", 179): "NVIDIA B200",
    ("RTX PRO 4500", 32): "NVIDIA RTX PRO 4500 Blackwell Server Edition",
    ("RTX PRO Server 6000", 96): "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prices", type=Path, required=True, help="a wheel of apache-libcloud")
    given = parser.parse_args()
    machines = list(read_machines())
    write("instance_types.csv", "moto 5.2.5, ec2/resources/instance_types.json.gz", "2026-11-30", machines)
    listed, as_of = read_prices(given.prices)
    source = f"libcloud/data/pricing.json in {given.prices.name}"
    write("prices.csv", source, as_of, list(mend([m["instance_type"] for m in machines], listed)))


def read_machines() -> Iterator[dict[str, Any]]:
    """Give the x86 types with whole GPUs, and a few without, smallest first in each family."""
    import moto.ec2

    file = Path(moto.ec2.__file__).parent / "resources/instance_types.json.gz"
    known = json.loads(gzip.decompress(file.read_bytes()))
    for name, told in sorted(known.items(), key=lambda item: (_family(item[0]), _cores(item[1]), item[0])):
        gpus = [g for g in told.get("GpuInfo", {}).get("Gpus", []) if g["Count"]]
        is_cpu = _family(name) in CPU_FAMILIES and name.partition(".")[2] in CPU_SIZES
        if name.endswith("metal") or not (is_cpu or (gpus and _family(name) in GPU_FAMILIES)):
            continue
        yield {
            "provider": "ec2",
            "instance_type": name,
            "gpu": NAMES[gpus[0]["Name"], gpus[0]["MemoryInfo"]["SizeInMiB"] // 1024] if gpus else "",
            "gpus": sum(g["Count"] for g in gpus),
            "vcpus": _cores(told),
            "memory_mib": told["MemoryInfo"]["SizeInMiB"],
        }


def _family(name: str) -> str:
    return name.partition(".")[0]


def _cores(told: Mapping[str, Any]) -> int:
    return int(told["VCpuInfo"]["DefaultVCpus"])


def read_prices(wheel: Path) -> tuple[dict[str, dict[str, float]], str]:
    """Give what the wheel lists as dollars an hour by type and region, and the day it was taken."""
    with zipfile.ZipFile(wheel) as archive:
        told = json.loads(archive.read("libcloud/data/pricing.json"))
    return told["compute"]["ec2_linux"], datetime.fromtimestamp(told["updated"], UTC).date().isoformat()


def mend(names: list[str], listed: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    """Give a price for each type and region of which the list says enough."""
    for family in sorted({_family(n) for n in names}):
        base = _base_prices([n for n in names if _family(n) == family], listed)
        for region in (*BASE_REGIONS, *OTHER_REGIONS):
            ratios = _ratios(base, listed, region)
            if not ratios:
                continue  # not sold there
            factor = 1.0 if region in BASE_REGIONS else min(ratios.values())
            for name in base:
                price = round(factor * base[name], 5)
                is_listed = abs(_price(listed, name, region) - price) <= CLOSE * price
                yield {
                    "provider": "ec2", "region": region, "instance_type": name,
                    "usd_per_hour": f"{price:.6g}", "is_derived": "" if is_listed else "yes",
                }  # fmt: skip


def _base_prices(members: list[str], listed: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Give what the base regions ask; where all three lines are a host's, other regions' lines look too cheap by it."""
    base = {n: min(found) for n in members if (found := [p for r in BASE_REGIONS if (p := _price(listed, n, r))])}
    usual = {r: statistics.median(seen.values()) for r in OTHER_REGIONS if (seen := _ratios(base, listed, r))}
    for name in base:
        against = [_price(listed, name, r) / base[name] / usual[r] for r in usual if _price(listed, name, r)]
        if against and statistics.median(against) < 1 / DEDICATED + CLOSE:
            base[name] = round(base[name] / DEDICATED, 5)
    return base


def _ratios(base: Mapping[str, float], listed: Mapping[str, Mapping[str, float]], region: str) -> dict[str, float]:
    return {name: price / base[name] for name in base if (price := _price(listed, name, region))}


def _price(listed: Mapping[str, Mapping[str, float]], name: str, region: str) -> float:
    """Give a listed price; 0.0 is a hole. Sometimes a name stands without its size: such rows are hosts."""
    return float(listed.get(name, {}).get(region) or 0.0)


def write(name: str, source: str, as_of: str, rows: list[dict[str, Any]]) -> None:
    with (FOLDER / name).open("w", newline="", encoding="utf-8") as file:
        file.write(f"# source: {source}\n# as of: {as_of}\n")
        out = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    print(f"{name}: {len(rows)} rows")


if __name__ == "__main__":
    main()
