"""Scenes as the public API shows them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import pytest

from farm.core import keys
from farm.core.folder import FolderStore
from farm.core.permits import Permit
from farm.core.storage import store
from farm.scenes.models import Blob, Scene, SceneVersion
from farm.scenes.services import record_report
from farm.studios.roles import Scope
from farm.studios.services import issue_token
from tests.scenes.reports import a_dependency, a_problem, a_report
from tests.scenes.uploading import Api, Tenant, digest_of, line, parts_of, sha
from workers.protocol import PART_SIZE

BIG = bytes(2 * PART_SIZE) + b"tail"


def create(api: Api, scene: Scene, files: dict[str, bytes], **more: Any) -> Any:
    lines = [line(path, content) for path, content in files.items()]
    return api.post(f"scenes/{scene.id}/versions", {"entry": next(iter(files)), "files": lines, **more})


def begun(api: Api, tenant: Tenant, files: dict[str, bytes]) -> str:
    answer = create(api, tenant.scene, files)
    assert answer.status_code == 201, answer.content
    version: str = answer.json()["version"]["id"]
    return version


def confirm(api: Api, version: str, *contents: bytes) -> Any:
    answer = api.post(f"scene-versions/{version}/blobs", {"digests": [digest_of(content) for content in contents]})
    assert answer.status_code == 200, answer.content
    return answer.json()


def uploaded(api: Api, tenant: Tenant, files: dict[str, bytes]) -> str:
    version = begun(api, tenant, files)
    api.send(version, list(files.values()))
    assert confirm(api, version, *files.values())["status"] == "whole"
    return version


class TestScenes:
    def test_one_is_made_and_found_by_its_name(self, api: Api, tenant: Tenant) -> None:
        made = api.post("scenes", {"project": str(tenant.project.id), "name": "Shot 2"})

        found = api.get("scenes", name="SHOT 2", project=tenant.project.id)

        assert made.status_code == 201
        assert [scene["id"] for scene in found.json()["results"]] == [made.json()["id"]]

    def test_a_name_that_is_taken_is_refused(self, api: Api, tenant: Tenant) -> None:
        answer = api.post("scenes", {"project": str(tenant.project.id), "name": "shot 1"})

        assert (answer.status_code, answer.json()["code"]) == (409, "name-taken")

    def test_another_studios_project_is_not_there(self, api: Api, stranger: Tenant) -> None:
        answer = api.post("scenes", {"project": str(stranger.project.id), "name": "Mine"})

        assert answer.status_code == 404
        assert Scene.objects.filter(project=stranger.project).count() == 1

    @pytest.mark.parametrize("name", ["", " ", "\x1b]0;x\x07", "a\nb", "x" * 201, None, 7.5, []])
    def test_what_is_no_name_is_refused(self, api: Api, tenant: Tenant, name: Any) -> None:
        answer = api.post("scenes", {"project": str(tenant.project.id), "name": name})

        assert answer.status_code == 422 or name == 7.5

    @pytest.mark.parametrize("field", ["studio", "id", "created_at", "extra"])
    def test_no_other_field_can_be_set(self, api: Api, tenant: Tenant, field: str) -> None:
        value = str(uuid4())
        answer = api.post("scenes", {"project": str(tenant.project.id), "name": "Shot 2", field: value})

        assert answer.status_code == 422 or value not in answer.content.decode()
        assert not Scene.objects.filter(studio_id=value).exists()

    def test_an_unknown_filter_is_refused(self, api: Api) -> None:
        assert api.get("scenes", studio="x").json()["code"] == "unknown-filter"

    def test_one_key_makes_one_scene(self, api: Api, tenant: Tenant) -> None:
        wish = {"project": str(tenant.project.id), "name": "Shot 2"}
        first, second = (api.post("scenes", wish, **{"Idempotency-Key": "k"}) for _ in range(2))

        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json() == second.json()

    def test_one_scene_comes_with_its_latest_version(self, api: Api, tenant: Tenant) -> None:
        assert api.get(f"scenes/{tenant.scene.id}").json()["latest_version"] is None
        begun(api, tenant, {"a.blend": b"scene"})
        latest = begun(api, tenant, {"a.blend": b"scene 2"})

        assert api.get(f"scenes/{tenant.scene.id}").json()["latest_version"]["id"] == latest


class TestVersions:
    def test_the_answer_names_what_is_missing_once(self, api: Api, tenant: Tenant) -> None:
        answer = create(api, tenant.scene, {"a.blend": b"scene", "b": b"tex", "c": b"tex"})

        assert answer.status_code == 201
        assert answer.json()["missing"] == [
            {"digest": sha(b"scene"), "size": 5},
            {"digest": sha(b"tex"), "size": 3},
        ]
        version = answer.json()["version"]
        assert (version["number"], version["status"], version["entry"]) == (1, "uploading", "a.blend")
        assert (version["file_count"], version["byte_count"]) == (3, 11)

    def test_all_faults_of_a_manifest_are_named_and_nothing_is_made(self, api: Api, tenant: Tenant) -> None:
        files = [line("a.blend", b"x"), line("../b", b"y"), {**line("c", b"z"), "size": "3"}]

        answer = api.post(f"scenes/{tenant.scene.id}/versions", {"entry": "a.blend", "files": files})

        assert (answer.status_code, answer.json()["code"]) == (422, "several")
        assert [fault["field"] for fault in answer.json()["errors"]] == ["files[1].path", "files[2].size"]
        assert "move the file below it" in answer.json()["errors"][0]["detail"]
        assert not SceneVersion.objects.exists()
        assert not Blob.objects.exists()

    def test_a_zip_instead_of_a_scene_is_refused(self, api: Api, tenant: Tenant) -> None:
        answer = create(api, tenant.scene, {"project.zip": b"PK"})

        assert answer.status_code == 422
        assert "upload its contents" in answer.json()["detail"]

    @pytest.mark.parametrize(
        "body", ["[]", "7", '"a"', "null", "{", '{"entry": "a", "files": [], "more": 1}', "{}", ""]
    )
    def test_what_is_no_manifest_is_refused(self, api: Api, tenant: Tenant, body: str) -> None:
        answer = api.ask("POST", f"scenes/{tenant.scene.id}/versions", body)

        assert answer.status_code in {400, 422}
        assert answer.headers["Content-Type"] == "application/problem+json"

    def test_one_that_is_larger_than_any_manifest_is_refused_unread(self, api: Api, tenant: Tenant) -> None:
        answer = api.ask("POST", f"scenes/{tenant.scene.id}/versions", '"' + "x" * (64 * 1024 * 1024) + '"')

        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")

    def test_one_key_makes_one_version(self, api: Api, tenant: Tenant) -> None:
        wish = {"entry": "a", "files": [line("a", b"x")]}
        for _ in range(2):
            answer = api.post(f"scenes/{tenant.scene.id}/versions", wish, **{"Idempotency-Key": "k"})

        assert answer.json()["version"]["number"] == 1
        assert SceneVersion.objects.count() == 1

    def test_they_are_listed_by_status(self, api: Api, tenant: Tenant) -> None:
        begun(api, tenant, {"a.blend": b"scene"})
        whole = uploaded(api, tenant, {"a.blend": b"scene 2"})

        found = api.get(f"scenes/{tenant.scene.id}/versions", status="whole,inspected").json()["results"]

        assert [version["id"] for version in found] == [whole]


class TestUpload:
    def test_files_arrive_and_the_version_becomes_whole(self, api: Api, tenant: Tenant) -> None:
        files = {"a.blend": b"scene", "empty": b"", "big.vdb": BIG}
        version = begun(api, tenant, files)

        assert api.send(version, list(files.values())) == 5
        answer = confirm(api, version, *files.values())

        assert answer["status"] == "whole"
        assert [blob["answer"] for blob in answer["blobs"]] == ["there"] * 3
        assert b"".join(store().stream(keys.blob_key(tenant.studio.id, digest_of(BIG)))) == BIG
        assert api.get(f"scene-versions/{version}").json()["status"] == "whole"
        assert api.get(f"scene-versions/{version}/missing").json()["results"] == []

    def test_a_cut_upload_goes_on_where_it_was(self, api: Api, tenant: Tenant) -> None:
        version = begun(api, tenant, {"big.vdb": BIG})
        api.send(version, [BIG], but=[1])

        finished = api.get(f"scene-versions/{version}/parts", digest=digest_of(BIG)).json()
        missing = confirm(api, version, BIG)["blobs"][0]
        sent = api.send(version, [BIG], but=[part["number"] for part in finished["results"]])

        assert [part["number"] for part in finished["results"]] == [0, 2]
        assert (missing["answer"], missing["missing"]) == ("incomplete", [1])
        assert sent == 1
        assert confirm(api, version, BIG)["status"] == "whole"

    def test_what_the_farm_has_is_not_sent_again(self, api: Api, tenant: Tenant) -> None:
        uploaded(api, tenant, {"a.blend": b"scene", "t": b"texture"})

        answer = create(api, tenant.scene, {"a.blend": b"scene, changed", "t": b"texture"})

        assert [each["digest"] for each in answer.json()["missing"]] == [sha(b"scene, changed")]

    def test_of_more_than_a_thousand_parts_the_finished_ones_come_in_pages(self, api: Api, tenant: Tenant) -> None:
        huge = {"path": "huge", "digest": "ab" * 32, "size": 1100 * PART_SIZE}
        answer = api.post(f"scenes/{tenant.scene.id}/versions", {"entry": "huge", "files": [huge]})
        version = answer.json()["version"]["id"]
        wish = {"digest": huge["digest"], "number": 0, "sha256": sha(b"")}
        api.post(f"scene-versions/{version}/parts", {"parts": [wish]})
        for number in range(1003):
            _arrive(Blob.objects.get(), number)

        first = api.get(f"scene-versions/{version}/parts", digest=huge["digest"]).json()
        second = api.get(f"scene-versions/{version}/parts", digest=huge["digest"], cursor=first["next"]).json()
        missing = api.post(f"scene-versions/{version}/blobs", {"digests": [huge["digest"]]}).json()["blobs"][0][
            "missing"
        ]

        assert [len(page["results"]) for page in (first, second)] == [1000, 3]
        assert second["next"] is None
        assert missing == list(range(1003, 1100))

    def test_a_lie_about_a_digest_is_found_at_signing(self, api: Api, tenant: Tenant) -> None:
        version = begun(api, tenant, {"a.blend": b"scene"})
        wish = {"digest": sha(b"scene"), "number": 0, "sha256": sha(b"other")}

        answer = api.post(f"scene-versions/{version}/parts", {"parts": [wish]})

        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "parts[0].sha256"

    def test_a_lie_about_a_large_files_digest_is_found_at_completion(self, api: Api, tenant: Tenant) -> None:
        lie = {"path": "big", "digest": "ab" * 32, "size": len(BIG)}
        version = api.post(f"scenes/{tenant.scene.id}/versions", {"entry": "big", "files": [lie]}).json()["version"][
            "id"
        ]
        wishes = [{"digest": "ab" * 32, "number": n, "sha256": sha(part)} for n, part in enumerate(parts_of(BIG))]
        for grant, part in zip(
            api.post(f"scene-versions/{version}/parts", {"parts": wishes}).json()["parts"], parts_of(BIG), strict=True
        ):
            assert api.put(grant["request"], part).status_code == 200

        answer = api.post(f"scene-versions/{version}/blobs", {"digests": ["ab" * 32]}).json()

        assert answer["status"] == "uploading"
        assert answer["blobs"][0]["answer"] == "mismatch"
        assert digest_of(BIG) in answer["blobs"][0]["why"]
        assert not list(store().listing(keys.studio_prefix(tenant.studio.id)))

    @pytest.mark.parametrize(
        ("where", "body"),
        [
            ("parts", {"parts": []}),
            ("parts", {"parts": [{"digest": "x", "number": 0, "sha256": "ab" * 32}]}),
            ("parts", {"parts": [{"digest": "ab" * 32, "number": -1, "sha256": "ab" * 32}]}),
            ("parts", {"parts": [{"digest": "ab" * 32, "number": 0, "sha256": "ab" * 32}] * 501}),
            ("parts", {"parts": "ab"}),
            ("blobs", {"digests": ["x"]}),
            ("blobs", {"digests": ["ab" * 32] * 501}),
            ("blobs", {"digests": "ab" * 32}),
            ("blobs", {}),
            ("blobs", {"digests": ["ab" * 32]}),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, api: Api, tenant: Tenant, where: str, body: Any) -> None:
        version = begun(api, tenant, {"a.blend": b"scene"})

        assert api.post(f"scene-versions/{version}/{where}", body).status_code == 422

    @pytest.mark.parametrize(
        "query",
        [
            {},
            {"digest": "ab" * 32},
            {"digest": "x", "limit": 0},
            {"limit": 1001},
            {"cursor": "-2"},
            {"cursor": "9" * 5000},
        ],
    )
    def test_parts_of_what_is_not_there_are_refused(self, api: Api, tenant: Tenant, query: Any) -> None:
        version = begun(api, tenant, {"a.blend": b"scene"})

        assert api.get(f"scene-versions/{version}/parts", **query).status_code == 422


def _arrive(blob: Blob, number: int) -> None:
    content = b"%d" % number
    permit = Permit(
        method="PUT",
        key=keys.blob_key(blob.studio_id, blob.digest),
        expires=0,
        upload=blob.upload,
        part=number,
        length=len(content),
        sha256=sha(content),
    )
    cast(FolderStore, store()).receive(permit, io.BytesIO(content))


class TestFiles:
    def test_they_come_in_the_manifests_order_in_pages(self, api: Api, tenant: Tenant) -> None:
        files = {f"z{n % 3}/{n}": b"%d" % n for n in range(120)}
        version = begun(api, tenant, files)
        seen: list[str] = []
        query: dict[str, Any] = {"limit": 50}
        while True:
            page = api.get(f"scene-versions/{version}/files", **query).json()
            seen += [file["path"] for file in page["results"]]
            if page["next"] is None:
                break
            query["cursor"] = page["next"]

        assert seen == list(files)
        assert page["results"][-1] == {"path": "z2/119", "source": None, "digest": sha(b"119"), "size": 3}

    def test_what_is_missing_comes_in_pages(self, api: Api, tenant: Tenant) -> None:
        version = begun(api, tenant, {f"{n}": b"%d" % n for n in range(60)})

        page = api.get(f"scene-versions/{version}/missing", limit=50).json()
        rest = api.get(f"scene-versions/{version}/missing", limit=50, cursor=page["next"]).json()

        found = [row["digest"] for row in page["results"] + rest["results"]]
        assert sorted(found) == sorted(sha(b"%d" % n) for n in range(60))


class TestReport:
    @pytest.fixture
    def version(self, api: Api, tenant: Tenant) -> str:
        return uploaded(api, tenant, {"a.blend": b"scene"})

    def test_before_inspection_it_is_refused_with_the_status(self, api: Api, version: str) -> None:
        answer = api.get(f"scene-versions/{version}/report")

        assert (answer.status_code, answer.json()["code"]) == (409, "report-missing")
        assert "whole" in answer.json()["detail"]
        assert api.get(f"scene-versions/{version}").json()["report"] is None

    def test_after_it_the_version_has_a_summary_and_the_report_is_there_in_full(self, api: Api, version: str) -> None:
        report = a_report(
            dependencies=[a_dependency("//t.png", state="missing")], problems=[a_problem("missing_files")]
        )
        record_report(SceneVersion.objects.get().id, report, now=datetime.now(UTC))

        answer = api.get(f"scene-versions/{version}").json()

        assert (answer["status"], answer["report"]["lacking"]) == ("inspected", 1)
        assert answer["report"]["problems"][0]["code"] == "missing_files"
        assert api.get(f"scene-versions/{version}/report").json() == report

    def test_a_refused_version_says_why(self, api: Api, version: str) -> None:
        refusal = {"code": "not_a_blend", "params": {}, "sentence": "a.blend is no .blend file."}
        record_report(SceneVersion.objects.get().id, a_report(refusal=refusal), now=datetime.now(UTC))

        answer = api.get(f"scene-versions/{version}").json()

        assert (answer["status"], answer["refusal"], answer["report"]) == (
            "refused",
            "a.blend is no .blend file.",
            None,
        )


READS = ["", "/files", "/missing", "/parts?digest=" + "ab" * 32, "/report"]


class TestTenancy:
    """A foreign id answers as one that is not there, on every route and verb."""

    @pytest.mark.parametrize("below", READS)
    def test_a_foreign_version_cannot_be_read(self, api: Api, foreign: Api, tenant: Tenant, below: str) -> None:
        version = uploaded(api, tenant, {"a.blend": b"scene"})

        assert foreign.get(f"scene-versions/{version}{below}").status_code == 404
        assert foreign.get(f"scene-versions/{uuid4()}{below}").status_code == 404

    @pytest.mark.parametrize(
        ("below", "body"),
        [
            ("parts", {"parts": [{"digest": sha(b"scene"), "number": 0, "sha256": sha(b"scene")}]}),
            ("blobs", {"digests": [sha(b"scene")]}),
        ],
    )
    def test_a_foreign_version_cannot_be_sent_to(
        self, api: Api, foreign: Api, tenant: Tenant, below: str, body: Any
    ) -> None:
        version = begun(api, tenant, {"a.blend": b"scene"})

        assert foreign.post(f"scene-versions/{version}/{below}", body).status_code == 404

    def test_a_foreign_scene_is_not_there(self, foreign: Api, tenant: Tenant) -> None:
        assert foreign.get(f"scenes/{tenant.scene.id}").status_code == 404
        assert foreign.get(f"scenes/{tenant.scene.id}/versions").status_code == 404
        assert create(foreign, tenant.scene, {"a.blend": b"scene"}).status_code == 404

    def test_lists_show_nothing_foreign(self, api: Api, foreign: Api, tenant: Tenant, stranger: Tenant) -> None:
        assert [scene["id"] for scene in foreign.get("scenes").json()["results"]] == [str(stranger.scene.id)]

    def test_the_same_content_is_two_blobs(self, api: Api, foreign: Api, tenant: Tenant, stranger: Tenant) -> None:
        uploaded(api, tenant, {"a.blend": b"scene"})

        answer = create(foreign, stranger.scene, {"a.blend": b"scene"})

        assert len(answer.json()["missing"]) == 1
        assert Blob.objects.filter(digest=sha(b"scene")).count() == 2

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
    def test_verbs_that_are_not_there_change_nothing(self, api: Api, tenant: Tenant, method: str) -> None:
        assert api.ask(method, f"scenes/{tenant.scene.id}", "{}").status_code in {403, 405}
        assert Scene.objects.filter(pk=tenant.scene.pk).exists()

    def test_a_token_that_may_only_read_sends_nothing(self, api: Api, tenant: Tenant) -> None:
        version = begun(api, tenant, {"a.blend": b"scene"})
        _, text = issue_token(
            studio=tenant.studio,
            user=tenant.caller.user,
            name="r",
            scopes=[Scope.SCENES_READ],
            days=1,
            now=datetime.now(UTC),
        )
        reader = Api(text)

        assert reader.get(f"scene-versions/{version}").status_code == 200
        assert reader.post(f"scene-versions/{version}/blobs", {"digests": []}).status_code == 403
        assert reader.post(f"scene-versions/{version}/parts", {"parts": []}).status_code == 403
        assert create(reader, tenant.scene, {"a": b"x"}).status_code == 403
        assert reader.post("scenes", {"project": str(tenant.project.id), "name": "x"}).status_code == 403

    def test_without_a_token_nothing_is_shown(self, db: None, tenant: Tenant) -> None:
        assert Api("fh_wrong").get(f"scenes/{tenant.scene.id}").status_code == 401
