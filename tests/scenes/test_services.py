"""Versions begin, files arrive and are verified, reports come in."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest
from django.db import connection, transaction

from farm.core import keys
from farm.core.errors import Invalid, NotFound, Refusals
from farm.core.folder import FolderStore
from farm.core.models import Event
from farm.core.permits import Permit
from farm.core.storage import MAX_DOWNLOAD_VALID, store
from farm.scenes import selectors
from farm.scenes.manifest import read_manifest
from farm.scenes.models import Blob, ManifestEntry, Scene, SceneVersion
from farm.scenes.selectors import missing_of, version_of, versions_without_report
from farm.scenes.services import (
    Confirmation,
    ManifestLies,
    NotOfThisVersion,
    PartWish,
    confirm_blobs,
    create_scene,
    create_version,
    finished_parts,
    record_report,
    sign_parts,
    signed_downloads,
)
from farm.studios.models import AuditRow
from farm.studios.services import NameTaken
from tests.scenes.reports import a_report, a_scene
from tests.scenes.uploading import Tenant, begin, digest_of, line, manifest_of, open_tenant, parts_of, sha
from workers.protocol import PART_SIZE, digest_of_parts

BIG = bytes(PART_SIZE) + b"tail"


def folder() -> FolderStore:
    return cast(FolderStore, store())


def put(tenant: Tenant, content: bytes) -> None:
    """Have a file of one part arrive."""
    store().write(keys.blob_key(tenant.studio.id, sha(content)), content)


def send(version: SceneVersion, content: bytes, *, now: datetime, only: Sequence[int] | None = None) -> None:
    """Send parts of a file as a client would, past the wire."""
    for number, part in enumerate(parts_of(content)):
        if only is not None and number not in only:
            continue
        wish = PartWish(digest=digest_of(content), number=number, sha256=sha(part))
        if sign_parts(version, [wish], now=now)[0].request:
            upload = Blob.objects.get(studio=version.studio_id, digest=wish.digest).upload
            permit = Permit(
                method="PUT",
                key=keys.blob_key(version.studio_id, wish.digest),
                expires=0,
                upload=upload,
                part=number if upload else -1,
                length=len(part),
                sha256=wish.sha256,
            )
            folder().receive(permit, io.BytesIO(part))


def upload(tenant: Tenant, files: dict[str, bytes], *, now: datetime) -> SceneVersion:
    version = begin(tenant, files, now=now)
    for content in files.values():
        send(version, content, now=now)
    confirm_blobs(version, [digest_of(content) for content in files.values()], now=now)
    version.refresh_from_db()
    return version


def events(version: SceneVersion) -> list[str]:
    return list(Event.objects.filter(subject=version.id).order_by("pk").values_list("kind", flat=True))


def together(*acts: Callable[[], Any]) -> list[Any]:
    """Carry out acts at the same time, each on a connection of its own; give what each gave or raised."""
    gate, outcomes = threading.Barrier(len(acts)), [None] * len(acts)

    def run(place: int, act: Callable[[], Any]) -> None:
        gate.wait()
        try:
            outcomes[place] = act()
        except Exception as error:  # looked at by the test
            outcomes[place] = error  # type: ignore[call-overload]
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


class TestCreateScene:
    def test_a_second_scene_of_the_same_name_is_refused(self, tenant: Tenant) -> None:
        with pytest.raises(NameTaken):
            create_scene(tenant.caller, project=tenant.project, name="SHOT 1")

    def test_it_is_audited(self, tenant: Tenant) -> None:
        assert AuditRow.objects.filter(act="scene.created", subject=tenant.scene.id).exists()


class TestCreateVersion:
    def test_what_the_farm_lacks_is_named_once_in_the_manifests_order(self, tenant: Tenant, now: datetime) -> None:
        put(tenant, b"there")
        upload(tenant, {"t": b"there"}, now=now)
        files = {"a.blend": b"scene", "t1": b"texture", "t2": b"texture", "t3": b"there", "z": b""}

        version, missing = create_version(tenant.caller, tenant.scene, manifest_of(files), now=now)

        assert missing == [sha(b"scene"), sha(b"texture"), sha(b"")]
        assert (version.number, version.status, version.file_count, version.byte_count) == (2, "uploading", 5, 24)

    def test_the_manifest_is_kept_in_its_order(self, tenant: Tenant, now: datetime) -> None:
        rows = [line(f"{n % 7}/{n}.png", b"%d" % n, source=f"C:\\{n}.png" if n % 2 else None) for n in range(300)]
        version, _ = create_version(tenant.caller, tenant.scene, read_manifest(rows[0]["path"], rows), now=now)

        kept = manifest_of_version(version)

        assert kept == [(row["path"], row["source"], row["digest"], row["size"]) for row in rows]

    def test_with_nothing_missing_it_is_whole_at_once(self, tenant: Tenant, now: datetime) -> None:
        first = upload(tenant, {"a.blend": b"scene"}, now=now)

        second, missing = create_version(tenant.caller, tenant.scene, manifest_of({"b.blend": b"scene"}), now=now)

        assert (first.status, second.status, missing) == ("whole", "whole", [])
        assert events(second) == ["scene.whole"]

    def test_one_changed_file_travels_alone(self, tenant: Tenant, now: datetime) -> None:
        files = {"a.blend": b"scene", **{f"tex/{n}": b"%d" % n for n in range(50)}}
        upload(tenant, files, now=now)

        _, missing = create_version(
            tenant.caller, tenant.scene, manifest_of({**files, "tex/7": b"changed"}, entry="a.blend"), now=now
        )

        assert missing == [sha(b"changed")]

    def test_another_studios_content_is_not_there(self, tenant: Tenant, stranger: Tenant, now: datetime) -> None:
        upload(stranger, {"a.blend": b"secret"}, now=now)

        _, missing = create_version(tenant.caller, tenant.scene, manifest_of({"a.blend": b"secret"}), now=now)

        assert missing == [sha(b"secret")]

    def test_a_wrong_size_of_what_is_there_is_refused_and_nothing_is_made(self, tenant: Tenant, now: datetime) -> None:
        upload(tenant, {"a.blend": b"scene"}, now=now)
        lie = read_manifest("a.blend", [{**line("a.blend", b"scene"), "size": 4}])

        with pytest.raises(ManifestLies, match="4 bytes; that content has 5"):
            create_version(tenant.caller, tenant.scene, lie, now=now)

        assert SceneVersion.objects.count() == 1

    def test_a_lie_about_what_is_not_there_does_not_harm_a_later_truth(self, tenant: Tenant, now: datetime) -> None:
        lie = read_manifest("a.blend", [{**line("a.blend", b"scene"), "size": 4}])
        liar, _ = create_version(tenant.caller, tenant.scene, lie, now=now)

        honest = upload(tenant, {"a.blend": b"scene"}, now=now)

        assert honest.status == "whole"
        assert confirm_blobs(liar, [sha(b"scene")], now=now)[0].answer == "mismatch"
        liar.refresh_from_db()
        assert liar.status == "uploading"

    def test_ten_thousand_files_are_listed(self, tenant: Tenant, now: datetime) -> None:
        rows = [line(f"tex/{n}.png", b"%d" % n) for n in range(10_000)]

        version, missing = create_version(tenant.caller, tenant.scene, read_manifest("tex/0.png", rows), now=now)

        assert len(missing) == ManifestEntry.objects.filter(version=version).count() == 10_000

    @pytest.mark.django_db(transaction=True)
    def test_several_at_once_get_numbers_of_their_own(self, now: datetime) -> None:
        tenant = open_tenant("several")

        made = together(*(partial(begin, tenant, {"a": b"%d" % n}, now=now) for n in range(6)))

        assert sorted(version.number for version in made) == [1, 2, 3, 4, 5, 6]

    @pytest.mark.django_db(transaction=True)
    def test_several_scenes_that_list_the_same_files_in_other_orders_wait_for_each_other(self, now: datetime) -> None:
        tenant = open_tenant("several scenes")
        other = replace(tenant, scene=create_scene(tenant.caller, project=tenant.project, name="Shot 2"))
        files = {f"f{n}": b"%d" % n for n in range(3000)}
        backwards = dict(reversed(files.items()))

        for _ in range(3):
            made = together(partial(begin, tenant, files, now=now), partial(begin, other, backwards, now=now))
            assert [type(version) for version in made] == [SceneVersion, SceneVersion]

        assert Blob.objects.count() == 3000


def manifest_of_version(version: SceneVersion) -> list[tuple[str, str | None, str, int]]:
    return [(file.path, file.source, file.digest, file.size) for file in selectors.manifest_of(version.id)]


class TestSignParts:
    @pytest.fixture
    def version(self, tenant: Tenant, now: datetime) -> SceneVersion:
        return begin(tenant, {"a.blend": b"scene", "big.vdb": BIG}, now=now)

    def wish(self, content: bytes, number: int = 0, **change: Any) -> PartWish:
        part = parts_of(content)[number] if number < len(parts_of(content)) else b""
        return PartWish(**{"digest": digest_of(content), "number": number, "sha256": sha(part), **change})

    def test_each_part_gets_its_length_and_request(self, version: SceneVersion, now: datetime) -> None:
        grants = sign_parts(version, [self.wish(b"scene"), self.wish(BIG), self.wish(BIG, 1)], now=now)

        assert [grant.length for grant in grants] == [5, PART_SIZE, 4]
        assert all(grant.request and grant.request.method == "PUT" for grant in grants)

    def test_one_upload_serves_all_who_send_the_same_file(
        self, version: SceneVersion, tenant: Tenant, now: datetime
    ) -> None:
        other = begin(tenant, {"copy.vdb": BIG}, now=now)
        sign_parts(version, [self.wish(BIG)], now=now)
        first = Blob.objects.get(digest=digest_of(BIG)).upload

        sign_parts(other, [self.wish(BIG, 1)], now=now)

        assert Blob.objects.get(digest=digest_of(BIG)).upload == first

    def test_for_what_is_there_already_nothing_is_signed(self, version: SceneVersion, now: datetime) -> None:
        send(version, b"scene", now=now)
        confirm_blobs(version, [sha(b"scene")], now=now)

        assert sign_parts(version, [self.wish(b"scene")], now=now)[0].request is None

    def test_what_is_not_of_the_version_is_refused(self, version: SceneVersion, tenant: Tenant, now: datetime) -> None:
        begin(tenant, {"other": b"other"}, now=now)

        with pytest.raises(NotOfThisVersion):
            sign_parts(version, [self.wish(b"other")], now=now)

    @pytest.mark.parametrize("number", [2, 10_000])
    def test_a_part_behind_the_end_is_refused(self, version: SceneVersion, now: datetime, number: int) -> None:
        with pytest.raises(Invalid, match="parts 0 to 1"):
            sign_parts(version, [self.wish(BIG, number)], now=now)

    def test_a_small_file_whose_sum_is_not_its_digest_is_refused(self, version: SceneVersion, now: datetime) -> None:
        with pytest.raises(Invalid, match="hash it anew"):
            sign_parts(version, [self.wish(b"scene", sha256=sha(b"other"))], now=now)

    def test_all_that_is_wrong_is_named_with_its_field(self, version: SceneVersion, now: datetime) -> None:
        with pytest.raises(Refusals) as found:
            sign_parts(version, [self.wish(b"other"), self.wish(BIG), self.wish(BIG, 7)], now=now)

        assert [refusal.field for refusal in found.value.refusals] == ["parts[0].digest", "parts[2].number"]


class TestFinishedParts:
    def test_of_a_cut_upload_they_are_named_and_only_the_others_travel(self, tenant: Tenant, now: datetime) -> None:
        content = bytes(2 * PART_SIZE) + b"tail"
        version = begin(tenant, {"big": content}, now=now)
        send(version, content, now=now, only=[0, 2])

        there, parts = finished_parts(version, digest_of(content), after=-1, limit=1000)

        assert (there, [(part.number, part.length) for part in parts]) == (False, [(0, PART_SIZE), (2, 4)])
        send(version, content, now=now, only=[1])
        assert confirm_blobs(version, [digest_of(content)], now=now)[0].answer == "there"

    def test_of_a_small_file_that_arrived_it_is_its_one_part(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"a.blend": b"scene"}, now=now)
        assert finished_parts(version, sha(b"scene"), after=-1, limit=9) == (False, [])
        send(version, b"scene", now=now)

        assert [part.sha256 for part in finished_parts(version, sha(b"scene"), after=-1, limit=9)[1]] == [sha(b"scene")]

    def test_of_a_verified_file_it_says_that_it_is_there(self, tenant: Tenant, now: datetime) -> None:
        version = upload(tenant, {"a.blend": b"scene"}, now=now)

        assert finished_parts(version, sha(b"scene"), after=-1, limit=9) == (True, [])

    def test_of_an_upload_that_was_given_up_there_are_none(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"big": BIG}, now=now)
        send(version, BIG, now=now, only=[0])
        store().abort(keys.blob_key(tenant.studio.id, digest_of(BIG)), Blob.objects.get().upload)

        assert finished_parts(version, digest_of(BIG), after=-1, limit=9) == (False, [])

    def test_another_versions_file_is_refused(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"a.blend": b"scene"}, now=now)

        with pytest.raises(NotOfThisVersion):
            finished_parts(version, sha(b"other"), after=-1, limit=9)


class TestConfirmBlobs:
    def confirm(self, version: SceneVersion, *contents: bytes, now: datetime) -> list[Confirmation]:
        return confirm_blobs(version, [digest_of(content) for content in contents], now=now)

    def test_when_all_are_there_the_version_is_whole(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"a.blend": b"scene", "big": BIG}, now=now)
        send(version, b"scene", now=now)
        assert self.confirm(version, b"scene", now=now) == [Confirmation(digest=sha(b"scene"), answer="there", size=5)]
        assert version.status == "uploading"

        send(version, BIG, now=now)
        answers = self.confirm(version, BIG, now=now)

        assert [(answer.answer, answer.size) for answer in answers] == [("there", len(BIG))]
        assert (version.status, version.whole_at) == ("whole", now)
        assert events(version) == ["scene.whole"]

    def test_again_it_says_the_same_and_changes_nothing(self, tenant: Tenant, now: datetime) -> None:
        version = upload(tenant, {"a.blend": b"scene"}, now=now)

        assert self.confirm(version, b"scene", now=now)[0].answer == "there"
        assert events(version) == ["scene.whole"]

    def test_missing_parts_are_named(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"a.blend": b"scene", "big": BIG}, now=now)
        assert [answer.missing for answer in self.confirm(version, b"scene", BIG, now=now)] == [[0], [0, 1]]
        send(version, BIG, now=now, only=[1])

        answer = self.confirm(version, BIG, now=now)[0]

        assert (answer.answer, answer.missing) == ("incomplete", [0])

    def test_of_an_upload_that_was_given_up_all_parts_are_missing_and_can_be_sent_anew(
        self, tenant: Tenant, now: datetime
    ) -> None:
        version = begin(tenant, {"big": BIG}, now=now)
        send(version, BIG, now=now, only=[0])
        store().abort(keys.blob_key(tenant.studio.id, digest_of(BIG)), Blob.objects.get().upload)

        assert self.confirm(version, BIG, now=now)[0].missing == [0, 1]
        send(version, BIG, now=now)
        assert self.confirm(version, BIG, now=now)[0].answer == "there"

    def test_a_lie_about_the_digest_is_found_and_what_was_sent_deleted(self, tenant: Tenant, now: datetime) -> None:
        truth, lie = BIG, BIG[:-1] + b"!"
        version = begin(tenant, {"big": truth}, now=now)
        send(version, truth, now=now, only=[0])
        blob = Blob.objects.get()
        permit = Permit(
            method="PUT",
            key=keys.blob_key(tenant.studio.id, blob.digest),
            expires=0,
            upload=blob.upload,
            part=1,
            length=4,
            sha256=sha(lie[PART_SIZE:]),
        )
        folder().receive(permit, io.BytesIO(lie[PART_SIZE:]))

        answer = self.confirm(version, truth, now=now)[0]

        assert answer.answer == "mismatch"
        assert digest_of(lie) in answer.why
        assert "make a new version" in answer.why
        assert store().stat(keys.blob_key(tenant.studio.id, blob.digest)) is None
        assert finished_parts(version, blob.digest, after=-1, limit=9) == (False, [])

    @pytest.mark.parametrize("claim", [PART_SIZE + 3, PART_SIZE + 5, 2 * PART_SIZE, 4])
    def test_a_lie_about_the_size_never_makes_a_version_whole(self, tenant: Tenant, now: datetime, claim: int) -> None:
        lie = read_manifest("big", [{**line("big", BIG), "size": claim}])
        version, _ = create_version(tenant.caller, tenant.scene, lie, now=now)
        honest = begin(tenant, {"big": BIG}, now=now)
        send(honest, BIG, now=now)

        answer = self.confirm(version, BIG, now=now)[0]

        assert answer.answer in {"mismatch", "incomplete"}
        version.refresh_from_db()
        assert version.status == "uploading"

    def test_a_completion_whose_answer_was_lost_counts(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"big": BIG}, now=now)
        send(version, BIG, now=now)
        blob = Blob.objects.get()
        store().complete(keys.blob_key(tenant.studio.id, blob.digest), blob.upload, size=len(BIG), digest=blob.digest)

        assert self.confirm(version, BIG, now=now)[0].answer == "there"
        assert Blob.objects.get().upload == ""

    def test_what_is_not_of_the_version_is_refused(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"a.blend": b"scene"}, now=now)
        begin(tenant, {"b.blend": b"other"}, now=now)

        with pytest.raises(NotOfThisVersion):
            self.confirm(version, b"other", now=now)

    def test_naming_none_only_looks_whether_the_version_is_whole_by_now(self, tenant: Tenant, now: datetime) -> None:
        waiting = begin(tenant, {"a.blend": b"scene"}, now=now)
        upload(tenant, {"b.blend": b"scene"}, now=now)

        assert self.confirm(waiting, now=now) == []
        assert waiting.status == "whole"

    def test_one_studios_bytes_never_make_anothers_version_whole(
        self, tenant: Tenant, stranger: Tenant, now: datetime
    ) -> None:
        upload(stranger, {"a.blend": b"secret"}, now=now)
        version = begin(tenant, {"a.blend": b"secret"}, now=now)

        assert self.confirm(version, b"secret", now=now)[0].answer == "incomplete"

    @pytest.mark.django_db(transaction=True)
    def test_two_that_bring_the_last_two_files_at_once_make_it_whole_once(self, now: datetime) -> None:
        tenant = open_tenant("both")
        for number in range(8):
            first, second = b"first %d" % number, b"second %d" % number
            version = begin(tenant, {"a": first, "b": second}, now=now)
            put(tenant, first)
            put(tenant, second)

            together(*(partial(self.confirm, version_of(version.id), each, now=now) for each in (first, second)))

            version.refresh_from_db()
            assert version.status == "whole"
            assert events(version) == ["scene.whole"]

    @pytest.mark.django_db(transaction=True)
    def test_two_versions_that_send_one_file_at_once_are_both_whole(self, now: datetime) -> None:
        tenant = open_tenant("same file")
        versions = [begin(tenant, {f"{n}.blend": BIG}, now=now) for n in range(2)]

        def go(version: SceneVersion) -> str:
            send(version, BIG, now=now)
            self.confirm(version, BIG, now=now)
            return self.confirm(version, BIG, now=now)[0].answer

        answers = together(*(partial(go, version) for version in versions))

        assert answers == ["there", "there"]
        assert set(SceneVersion.objects.values_list("status", flat=True)) == {"whole"}


class TestRecordReport:
    @pytest.fixture
    def version(self, tenant: Tenant, now: datetime) -> SceneVersion:
        return upload(tenant, {"a.blend": b"scene"}, now=now)

    def test_a_report_makes_the_version_inspected(self, version: SceneVersion, now: datetime) -> None:
        assert list(versions_without_report()) == [version]

        record_report(version.id, a_report(), now=now)

        version.refresh_from_db()
        assert (version.status, version.report, version.inspected_at) == ("inspected", a_report(), now)
        assert events(version) == ["scene.whole", "scene.inspected"]
        assert list(versions_without_report()) == []

    def test_a_refusal_refuses_the_version_with_its_sentence(self, version: SceneVersion, now: datetime) -> None:
        refusal = {
            "code": "not_a_blend",
            "params": {},
            "sentence": "a.blend is text, not a .blend file: choose another.",
        }

        record_report(version.id, a_report(refusal=refusal, scenes=[], saved_by=None), now=now)

        version.refresh_from_db()
        assert (version.status, version.refusal) == ("refused", refusal["sentence"])
        assert events(version)[-1] == "scene.refused"

    def test_the_first_report_stands(self, version: SceneVersion, now: datetime) -> None:
        record_report(version.id, a_report(), now=now)
        record_report(version.id, a_report(scenes=[a_scene(name="Other")]), now=now + timedelta(hours=1))

        version.refresh_from_db()
        assert (version.report, version.inspected_at) == (a_report(), now)
        assert events(version) == ["scene.whole", "scene.inspected"]

    @pytest.mark.parametrize(
        "report",
        [
            None,
            [],
            {},
            {"report": 2},
            {"report": 1},
            a_report(scenes=[]),
            a_report(saved_by=None),
            a_report(entry="\x00"),
            a_report(entry="\ud800"),
            a_report(entry=float("nan")),
            a_report(scenes=[a_scene(name=7)]),
        ],
    )
    def test_what_is_no_report_refuses_the_version_and_is_not_kept(
        self, version: SceneVersion, now: datetime, report: Any
    ) -> None:
        record_report(version.id, report, now=now)

        version.refresh_from_db()
        assert (version.status, version.report) == ("refused", None)
        assert version.refusal.startswith("The scene could not be inspected")

    def test_of_a_version_that_is_not_there_it_is_refused(self, tenant: Tenant, now: datetime) -> None:
        with pytest.raises(NotFound):
            record_report(tenant.scene.id, a_report(), now=now)


class TestSignedDownloads:
    def test_each_file_of_the_version_is_signed_once(self, tenant: Tenant, now: datetime) -> None:
        version = upload(tenant, {"a": b"scene", "b": b"texture", "c": b"texture"}, now=now)

        signed = signed_downloads(version.id, now=now)

        assert set(signed) == {sha(b"scene"), sha(b"texture")}
        assert signed[sha(b"scene")].url.startswith(f"/files/{keys.blob_key(tenant.studio.id, sha(b'scene'))}?")

    def test_they_are_made_once_per_half_hour(self, tenant: Tenant, now: datetime) -> None:
        version = upload(tenant, {"a": b"scene"}, now=now)
        at = datetime.fromtimestamp(now.timestamp() // 1800 * 1800, now.tzinfo)

        first, last = (signed_downloads(version.id, now=at + timedelta(seconds=s)) for s in (0, 1799))

        assert first is last
        assert signed_downloads(version.id, now=at + timedelta(minutes=30)) != first
        assert timedelta(minutes=30) * 2 == MAX_DOWNLOAD_VALID


class TestMissingOf:
    def test_each_is_named_once_with_the_size_claimed(self, tenant: Tenant, now: datetime) -> None:
        version = begin(tenant, {"a": b"scene", "b": b"texture", "c": b"texture"}, now=now)
        put(tenant, b"scene")
        confirm_blobs(version, [sha(b"scene")], now=now)

        found = list(missing_of(version.id))

        assert [(blob.digest, vars(blob)["claimed_size"]) for blob in found] == [(sha(b"texture"), 7)]


class TestTables:
    """Row-level security is a fact of the catalogue."""

    TABLES = ("scenes_blob", "scenes_scene", "scenes_sceneversion", "scenes_manifestentry")

    def test_each_table_forces_both_policies(self, db: None) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
                       (SELECT array_agg(p.policyname ORDER BY 1) FROM pg_policies p WHERE p.tablename = c.relname)
                  FROM pg_class c WHERE c.relname = ANY(%s)
                """,
                [list(self.TABLES)],
            )
            found = {name: (forced, policies) for name, forced, policies in cursor.fetchall()}

        assert found == dict.fromkeys(self.TABLES, (True, ["farm_sees_all", "tenant_sees_own"]))

    def test_a_tenant_sees_and_touches_only_its_own_rows(self, tenant: Tenant, stranger: Tenant, now: datetime) -> None:
        upload(stranger, {"a": b"secret"}, now=now)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('farm.studio', %s, true)", [str(tenant.studio.id)])
            cursor.execute("SET LOCAL ROLE farm_tenant")

            seen = [model.objects.count() for model in (Blob, SceneVersion, ManifestEntry)]
            changed = Blob.objects.update(size=0)
            cursor.execute("RESET ROLE")

        assert (seen, changed) == ([0, 0, 0], 0)
        assert Scene.objects.count() == 2

    def test_one_digest_of_parts_is_never_that_of_their_bytes(self) -> None:
        assert digest_of(BIG) == digest_of_parts(map(sha, parts_of(BIG))) != sha(BIG)
