"""A scene goes in and a proved frame comes out, with every byte in S3 and every signature verified."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.cloud.s3_server import KEY_ID, REGION, SECRET, S3Server, s3
from tests.harness import Farm, make_sample_scene


@pytest.fixture
def bucket() -> Iterator[S3Server]:
    with s3() as server:
        boto3.client(
            "s3",
            endpoint_url=server.url,
            region_name=REGION,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
        ).create_bucket(Bucket="farm", CreateBucketConfiguration={"LocationConstraint": REGION})  # type: ignore[typeddict-item]
        yield server


@pytest.fixture
def farm(bucket: S3Server, tmp_path: Path) -> Iterator[Farm]:
    farm = Farm(tmp_path / "farm")
    farm.env |= {
        "FARM_STORAGE_URL": f"s3://farm/store?region={REGION}&endpoint={bucket.url}",
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    farm.up()
    yield farm
    farm.down()


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return make_sample_scene(tmp_path / "scene")


@pytest.mark.timeout(420)
def test_a_scene_is_sent_inspected_rendered_proved_and_fetched(
    farm: Farm, bucket: S3Server, scene: Path, tmp_path: Path
) -> None:
    homes = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("CONFIG", "CACHE", "STATE")}
    person = os.environ | homes | {"FARMHAND_URL": farm.variables["FARM_URL"], "FARMHAND_TOKEN": farm.token}

    def run(*words: str | Path) -> None:
        ran = subprocess.run(
            [sys.executable, "-m", "farmhand", *words], env=person, capture_output=True, text=True, timeout=180
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    run("scene", "push", scene, "--wait-report")
    run("job", "submit", "last", "--frames", "1", "--watch")
    run("job", "pull", "last", tmp_path / "frames")

    assert [path.suffix for path in (tmp_path / "frames").rglob("*") if path.is_file()] == [".png"]
    assert not list((farm.folder / "store").rglob("*"))  # no byte of it lies here
    assert bucket.verifier.refused == []
