"""Storage keys are built from ids, numbers and digests only."""

from __future__ import annotations

from uuid import UUID

import pytest

from farm.core import keys

STUDIO = UUID("01890000-0000-7000-8000-000000000001")
ATTEMPT = UUID("01890000-0000-7000-8000-000000000002")
DIGEST = "ab" * 32


class TestKeys:
    @pytest.mark.parametrize(
        "key",
        [
            keys.blob_key(STUDIO, DIGEST),
            keys.output_key(STUDIO, ATTEMPT, DIGEST),
            keys.log_key(STUDIO, ATTEMPT, 0),
            keys.delivery_key(STUDIO, ATTEMPT, DIGEST),
        ],
    )
    def test_each_key_is_well_formed_and_below_its_studio(self, key: str) -> None:
        assert keys.checked(key) == key
        assert key.startswith(keys.studio_prefix(STUDIO))

    def test_two_studios_never_share_a_blob(self) -> None:
        assert keys.blob_key(STUDIO, DIGEST) != keys.blob_key(ATTEMPT, DIGEST)

    @pytest.mark.parametrize("digest", ["", "../../etc/passwd", "AB" * 32, "ab" * 31, "ab" * 32 + "\n", "ab" * 33])
    def test_what_is_no_digest_makes_no_key(self, digest: str) -> None:
        with pytest.raises(keys.BadKey):
            keys.blob_key(STUDIO, digest)

    @pytest.mark.parametrize("studio", ["..", "a/b", ""])
    def test_what_is_no_id_makes_no_key(self, studio: str) -> None:
        with pytest.raises(ValueError):
            keys.blob_key(studio, DIGEST)  # type: ignore[arg-type]


class TestIsBlob:
    def test_only_a_blobs_key_is_one(self) -> None:
        assert keys.is_blob(keys.blob_key(STUDIO, DIGEST))
        assert not keys.is_blob(keys.output_key(STUDIO, ATTEMPT, DIGEST))


class TestChecked:
    @pytest.mark.parametrize(
        "key",
        [
            "",
            "a",
            "/a/b",
            "a/b/",
            "a//b",
            "a/../b",
            "a/./b",
            "a/b.parts",
            "a/b\n",
            "A/b",
            "a/b\x00",
            "a/b c",
            "a/" + "b" * 500,
        ],
    )
    def test_what_no_function_here_makes_is_refused(self, key: str) -> None:
        with pytest.raises(keys.BadKey):
            keys.checked(key)
