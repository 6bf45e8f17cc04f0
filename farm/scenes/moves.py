"""The statuses of scene versions and blobs. Pure."""

from __future__ import annotations

from enum import StrEnum

from farm.core.moves import Moves


class VersionStatus(StrEnum):
    UPLOADING = "uploading"  # files are missing
    WHOLE = "whole"  # every file is there and verified; not yet inspected
    INSPECTED = "inspected"  # has a report
    REFUSED = "refused"  # no renderer opens it; `refusal` says why


VERSION_MOVES: Moves[VersionStatus] = {
    VersionStatus.UPLOADING: {VersionStatus.WHOLE},
    VersionStatus.WHOLE: {VersionStatus.INSPECTED, VersionStatus.REFUSED},
    VersionStatus.INSPECTED: set(),
    VersionStatus.REFUSED: set(),
}


class BlobState(StrEnum):
    UPLOADING = "uploading"  # not there, or not yet verified
    THERE = "there"  # in the store, its digest compared
