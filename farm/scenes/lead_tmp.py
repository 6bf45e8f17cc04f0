from __future__ import annotations

from datetime import timedelta

from farm.core import keys
from farm.core.moves import move_to
from farm.core.storage import store
from farm.scenes.models import ManifestEntry, SceneVersion
from farm.scenes.moves import VERSION_MOVES, VersionStatus


def signed_downloads(version_id, *, now):
    v = SceneVersion.objects.get(pk=version_id)
    ds = ManifestEntry.objects.filter(version_id=version_id).values_list("blob__digest", flat=True).distinct()
    return {d: store().sign_download(keys.blob_key(v.studio_id, d), now=now, valid=timedelta(hours=1)) for d in ds}


def record_report(version_id, report, *, now):
    v = SceneVersion.objects.get(pk=version_id)
    r = report.get("refusal")
    move_to(
        v,
        VersionStatus.REFUSED if r else VersionStatus.INSPECTED,
        moves=VERSION_MOVES,
        report=report,
        inspected_at=now,
        refusal=r["sentence"] if r else "",
    )
