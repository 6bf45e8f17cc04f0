"""Garbage goes, and nothing that somebody relies on goes with it."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest
from django.db import connection, transaction

from farm.core import keys
from farm.core.folder import FolderStore
from farm.core.storage import NoSuchUpload, store
from farm.scenes.models import Blob, SceneVersion
from farm.scenes.reconcilers import UNFINISHED, UNREFERENCED, collect
from farm.scenes.services import PartWish, confirm_blobs, create_version, sign_parts
from tests.scenes.uploading import Tenant, begin, digest_of, manifest_of, open_tenant, parts_of, sha
from workers.protocol import PART_SIZE

CONTENT = b"scene"
BIG = bytes(PART_SIZE) + b"tail"
LATER = UNREFERENCED + timedelta(minutes=1)


def key_of(tenant: Tenant, content: bytes = CONTENT) -> str:
    return keys.blob_key(tenant.studio.id, digest_of(content))


def whole(tenant: Tenant, *, now: datetime) -> SceneVersion:
    version = begin(tenant, {"a.blend": CONTENT}, now=now)
    store().write(key_of(tenant), CONTENT)
    confirm_blobs(version, [sha(CONTENT)], now=now)
    return version


def unreferenced(tenant: Tenant, *, now: datetime) -> None:
    """A blob that is there, of a version that is not any more."""
    whole(tenant, now=now)
    SceneVersion.objects.all().delete()


class TestUnreferencedBlobs:
    def test_after_seven_days_row_and_bytes_are_gone(self, tenant: Tenant, now: datetime) -> None:
        unreferenced(tenant, now=now)

        assert collect(now=now + LATER)[0] == 1
        assert not Blob.objects.exists()
        assert store().stat(key_of(tenant)) is None

    def test_before_they_stay(self, tenant: Tenant, now: datetime) -> None:
        unreferenced(tenant, now=now)

        assert collect(now=now + UNREFERENCED - timedelta(minutes=1))[0] == 0
        assert store().stat(key_of(tenant))

    def test_what_a_version_lists_stays_however_old(self, tenant: Tenant, now: datetime) -> None:
        whole(tenant, now=now)

        assert collect(now=now + timedelta(days=3650))[0] == 0
        assert store().stat(key_of(tenant))

    def test_what_another_studio_has_too_stays(self, tenant: Tenant, stranger: Tenant, now: datetime) -> None:
        whole(stranger, now=now)
        whole(tenant, now=now)
        SceneVersion.objects.filter(studio=tenant.studio).delete()

        assert collect(now=now + LATER)[0] == 1
        assert store().stat(key_of(stranger))

    def test_a_manifest_check_saves_it_for_seven_days_more(self, tenant: Tenant, now: datetime) -> None:
        unreferenced(tenant, now=now)
        begin(tenant, {"a.blend": CONTENT}, now=now + timedelta(days=6))
        SceneVersion.objects.all().delete()

        assert collect(now=now + LATER)[0] == 0
        assert collect(now=now + timedelta(days=6) + LATER)[0] == 1

    def test_parts_that_were_sent_for_it_go_too(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"big": BIG}, now=now)
        sign_parts(version, [PartWish(digest=digest_of(BIG), number=0, sha256=sha(parts_of(BIG)[0]))], now=now)
        upload = Blob.objects.get().upload
        SceneVersion.objects.all().delete()

        assert collect(now=now + LATER)[0] == 1
        with pytest.raises(NoSuchUpload):
            store().finished_parts(key_of(tenant, BIG), upload)

    def test_twice_does_nothing_the_second_time(self, tenant: Tenant, now: datetime) -> None:
        unreferenced(tenant, now=now)
        collect(now=now + LATER)

        assert collect(now=now + LATER) == (0, 0)

    def test_one_that_cannot_be_deleted_does_not_keep_the_others(
        self, tenant: Tenant, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        version = begin(tenant, {"a": b"stuck", "b": b"loose"}, now=now)
        version.delete()
        delete = FolderStore.delete

        def stubborn(self: FolderStore, key: str) -> None:
            if sha(b"stuck") in key:
                raise OSError("the disk is broken")
            delete(self, key)

        monkeypatch.setattr(FolderStore, "delete", stubborn)

        assert collect(now=now + LATER)[0] == 1
        assert [blob.digest for blob in Blob.objects.all()] == [sha(b"stuck")]


class TestAlreadyThereIsNeverALie:
    """The collector and a manifest check meet on the blob's row."""

    def test_when_deletion_fails_half_way_no_row_says_there(
        self, tenant: Tenant, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unreferenced(tenant, now=now)
        delete = FolderStore.delete

        def deleted_then_killed(self: FolderStore, key: str) -> None:
            delete(self, key)
            raise OSError("killed")

        monkeypatch.setattr(FolderStore, "delete", deleted_then_killed)
        collect(now=now + LATER)

        _, missing = create_version(tenant.caller, tenant.scene, manifest_of({"a.blend": CONTENT}), now=now + LATER)

        assert missing == [sha(CONTENT)]

    def test_bytes_that_outlived_a_failed_deletion_are_found_again(
        self, tenant: Tenant, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unreferenced(tenant, now=now)
        with monkeypatch.context() as broken:
            broken.setattr(FolderStore, "delete", lambda self, key: (_ for _ in ()).throw(OSError("killed")))
            collect(now=now + LATER)
        version = begin(tenant, {"a.blend": CONTENT}, now=now + LATER)

        assert confirm_blobs(version, [sha(CONTENT)], now=now + LATER)[0].answer == "there"

    @pytest.mark.django_db(transaction=True)
    def test_while_a_manifest_check_is_under_way_its_blobs_are_left_alone(self, now: datetime) -> None:
        tenant = open_tenant("checking")
        unreferenced(tenant, now=now)
        collected: list[int] = []

        with transaction.atomic():
            _, missing = create_version(tenant.caller, tenant.scene, manifest_of({"a.blend": CONTENT}), now=now + LATER)
            _elsewhere(lambda: collected.append(collect(now=now + LATER)[0]))

        assert (missing, collected) == ([], [0])
        assert store().stat(key_of(tenant))

    @pytest.mark.django_db(transaction=True)
    def test_a_manifest_check_waits_for_a_deletion_and_then_asks_for_the_bytes(
        self, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tenant = open_tenant("deleting")
        unreferenced(tenant, now=now)
        delete = FolderStore.delete
        deleting, go_on = threading.Event(), threading.Event()

        def slowly(self: FolderStore, key: str) -> None:
            deleting.set()
            assert go_on.wait(20)
            delete(self, key)

        monkeypatch.setattr(FolderStore, "delete", slowly)
        collector = _start(lambda: collect(now=now + LATER))
        assert deleting.wait(20)
        missing: list[str] = []
        checker = _start(
            lambda: missing.extend(
                create_version(tenant.caller, tenant.scene, manifest_of({"a.blend": CONTENT}), now=now + LATER)[1]
            )
        )
        checker.join(0.5)
        assert checker.is_alive()

        go_on.set()
        collector.join()
        checker.join()

        assert missing == [sha(CONTENT)]
        assert store().stat(key_of(tenant)) is None
        assert Blob.objects.get().state == "uploading"


class TestUnfinishedUploads:
    @pytest.fixture
    def version(self, tenant: Tenant, now: datetime) -> SceneVersion:
        version = begin(tenant, {"big": BIG}, now=now)
        sign_parts(version, [PartWish(digest=digest_of(BIG), number=0, sha256=sha(parts_of(BIG)[0]))], now=now)
        return version

    def test_after_24_hours_without_a_part_they_are_given_up(self, version: SceneVersion, now: datetime) -> None:
        assert collect(now=now + UNFINISHED + timedelta(minutes=1)) == (0, 1)
        assert Blob.objects.get().upload == ""
        assert confirm_blobs(version, [digest_of(BIG)], now=now)[0].missing == [0, 1]

    def test_before_they_stay(self, version: SceneVersion, now: datetime) -> None:
        assert collect(now=now + UNFINISHED - timedelta(minutes=1)) == (0, 0)
        assert Blob.objects.get().upload

    def test_one_that_somebody_goes_on_with_stays(self, version: SceneVersion, now: datetime) -> None:
        later = now + UNFINISHED - timedelta(minutes=1)
        sign_parts(version, [PartWish(digest=digest_of(BIG), number=1, sha256=sha(b"tail"))], now=later)

        assert collect(now=now + UNFINISHED + timedelta(minutes=1)) == (0, 0)
        assert Blob.objects.get().upload

    def test_one_that_no_row_knows_is_given_up(self, db: None, tenant: Tenant, now: datetime) -> None:
        """As after a request that began it and then failed."""
        store().begin(key_of(tenant, BIG))

        assert collect(now=now + UNFINISHED + timedelta(minutes=1)) == (0, 1)


def _start(act: object) -> threading.Thread:
    def run() -> None:
        assert callable(act)
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _elsewhere(act: object) -> None:
    _start(act).join()
