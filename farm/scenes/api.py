"""`/api/v1/scenes` and `/scene-versions`: manifests in, signed part requests out, reports to read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import path
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import Invalid, Refusal
from farm.core.moves import choices
from farm.core.names import NameField
from farm.core.pages import by_choice, by_id, page, page_schema, parse_number, query_of
from farm.core.storage import MAX_PARTS
from farm.core.views import ApiView, once
from farm.scenes import selectors, services
from farm.scenes.manifest import MAX_FILES, read_manifest
from farm.scenes.models import Blob, ManifestEntry, Scene, SceneVersion
from farm.scenes.moves import VersionStatus
from farm.scenes.reports import DependencyState, summary_of
from farm.scenes.services import MAX_DIGESTS_AT_ONCE, MAX_PARTS_AT_ONCE, PartGrant, PartWish
from farm.studios.authentication import caller
from farm.studios.roles import Scope
from farm.studios.selectors import project_of
from workers.protocol import encode

MAX_PART_PAGE = 1000


class ReportMissing(Refusal):
    """This version has no report yet: it is {status}. Ask again when it is inspected."""

    code = "report-missing"


# --- what is sent and answered


class SceneSerializer(serializers.ModelSerializer[Scene]):
    """A named upload, in versions."""

    name = NameField()
    project = serializers.UUIDField(source="project_id")

    class Meta:
        model = Scene
        fields = ["id", "project", "name", "created_at"]
        read_only_fields = ["created_at"]


class VersionSerializer(serializers.ModelSerializer[SceneVersion]):
    """A version of a scene: its manifest in figures, and where it stands."""

    class Meta:
        model = SceneVersion
        fields = [
            "id",
            "scene",
            "number",
            "status",
            "entry",
            "file_count",
            "byte_count",
            "warnings",
            "refusal",
            "created_at",
            "whole_at",
            "inspected_at",
        ]

    warnings = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="What the uploader should know of the manifest."
    )


class ReportProblemSerializer(serializers.Serializer[Any]):
    """Something to know before rendering."""

    code = serializers.CharField()
    severity = serializers.ChoiceField(choices=["error", "warning"], help_text="error: frames will fail as things are.")
    params = serializers.DictField()
    sentence = serializers.CharField()


class ReportSummarySerializer(serializers.Serializer[Any]):
    """The main points of an inspection's report."""

    renderer = serializers.DictField(child=serializers.CharField(allow_null=True))
    saved_by = serializers.CharField(help_text="The renderer's version that saved the scene.")
    scenes = serializers.ListField(child=serializers.CharField())
    scene = serializers.DictField(help_text="The scene that opens: name, engine, frames, resolution, output.")
    dependencies = serializers.IntegerField()
    lacking = serializers.IntegerField(help_text="Files that frames need and the upload does not have.")
    problems = ReportProblemSerializer(many=True)


class ReportRendererSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.CharField(allow_null=True)


class ReportRefusalSerializer(serializers.Serializer[Any]):
    """Why the file cannot be opened."""

    code = serializers.CharField()
    params = serializers.DictField(child=serializers.CharField())
    sentence = serializers.CharField()


class ReportMarkerSerializer(serializers.Serializer[Any]):
    """A camera that a scene changes to at a frame."""

    frame = serializers.IntegerField()
    camera = serializers.CharField(allow_null=True)


class ReportLayerSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    on = serializers.BooleanField()


class ReportFramesSerializer(serializers.Serializer[Any]):
    start = serializers.IntegerField()
    end = serializers.IntegerField()
    step = serializers.IntegerField()


class ReportResolutionSerializer(serializers.Serializer[Any]):
    """The picture before and after its percentage."""

    x = serializers.IntegerField()
    y = serializers.IntegerField()
    percent = serializers.IntegerField()
    width = serializers.IntegerField()
    height = serializers.IntegerField()


class ReportOutputSerializer(serializers.Serializer[Any]):
    format = serializers.CharField()
    movie = serializers.BooleanField()
    color_mode = serializers.CharField(allow_null=True)
    color_depth = serializers.IntegerField()


class ReportSceneSerializer(serializers.Serializer[Any]):
    """One of the file's scenes, as its artist left it."""

    name = serializers.CharField()
    active = serializers.BooleanField(help_text="It renders unless another is ordered.")
    drawn = serializers.BooleanField(help_text="An engine draws it, not strips alone.")
    engine = serializers.CharField()
    samples = serializers.IntegerField(allow_null=True)
    camera = serializers.CharField(allow_null=True)
    cameras = serializers.ListField(child=serializers.CharField())
    markers = ReportMarkerSerializer(many=True)
    view_layers = ReportLayerSerializer(many=True)
    frames = ReportFramesSerializer()
    fps = serializers.ListField(child=serializers.IntegerField(), help_text="Numerator and denominator.")
    resolution = ReportResolutionSerializer()
    output = ReportOutputSerializer()


class ReportDependencySerializer(serializers.Serializer[Any]):
    """A file that the scene needs, or the numbered files of a sequence, tile set or cache."""

    kind = serializers.CharField()
    name = serializers.CharField()
    path = serializers.CharField(help_text="As the scene spells it.")
    packed = serializers.BooleanField(help_text="It travels inside the scene's own file.")
    needed = serializers.BooleanField(help_text="A frame could look different without it.")
    users = serializers.ListField(child=serializers.CharField())
    absolute = serializers.BooleanField()
    state = serializers.ChoiceField(choices=choices(DependencyState))
    resolved = serializers.CharField(allow_null=True, help_text="Where it lies in the upload.")
    files = serializers.IntegerField()
    size = serializers.IntegerField()
    numbers = serializers.CharField(allow_null=True, help_text="Its frames or tiles, as in 1-4,9.")
    missing_numbers = serializers.CharField(allow_null=True)
    missing = serializers.ListField(child=serializers.CharField(), help_text="Where they are looked for; at most 100.")


class ReportSerializer(serializers.Serializer[Any]):
    """What an inspection found. With a `refusal` all else may be empty; renderers may say more than this."""

    report = serializers.IntegerField(help_text="The number of this form: 1.")
    entry = serializers.CharField()
    renderer = ReportRendererSerializer()
    saved_by = serializers.CharField(allow_null=True, help_text="The renderer's version that saved the scene.")
    refusal = ReportRefusalSerializer(allow_null=True)
    scenes = ReportSceneSerializer(many=True)
    dependencies = ReportDependencySerializer(many=True)
    problems = ReportProblemSerializer(many=True)


class VersionDetailSerializer(VersionSerializer):
    """A version, with the main points of its report once it is inspected."""

    report = serializers.SerializerMethodField()

    class Meta(VersionSerializer.Meta):
        fields = [*VersionSerializer.Meta.fields, "report"]

    @extend_schema_field(ReportSummarySerializer(allow_null=True))
    def get_report(self, version: SceneVersion) -> dict[str, Any] | None:
        return summary_of(version.report) if version.report and not version.refusal else None


class SceneDetailSerializer(SceneSerializer):
    """A scene with its latest version."""

    latest_version = VersionSerializer(allow_null=True)

    class Meta(SceneSerializer.Meta):
        fields = [*SceneSerializer.Meta.fields, "latest_version"]


class ManifestFileSerializer(serializers.Serializer[Any]):
    """One file: where it is laid out, its content's digest and size, and how the scene spells its path."""

    path = serializers.CharField(help_text="Relative to the scene's folder, with /.")
    digest = serializers.CharField(help_text="SHA-256; above 16 MiB, of the SHA-256 sums of the 16 MiB parts.")
    size = serializers.IntegerField(min_value=0)
    source = serializers.CharField(  # type: ignore[assignment]  # a field of this name; DRF moves it out of the way
        required=False, allow_null=True, help_text="The path as the scene spells it."
    )


class ManifestSerializer(serializers.Serializer[Any]):
    """All files of a version, and the one that opens."""

    entry = serializers.CharField(help_text="The path of the file that the renderer opens.")
    files = ManifestFileSerializer(many=True, help_text=f"1 to {MAX_FILES:,} files.")


class MissingSerializer(serializers.Serializer[Any]):
    """A content the farm lacks."""

    digest = serializers.CharField()
    size = serializers.IntegerField()


class MissingBlobSerializer(serializers.ModelSerializer[Blob]):
    """A content that a version lacks."""

    size = serializers.IntegerField(source="claimed_size")

    class Meta:
        model = Blob
        fields = ["digest", "size"]


class NewVersionSerializer(serializers.Serializer[Any]):
    """The version that was begun, and what to send for it; each digest once."""

    version = VersionSerializer()
    missing = MissingSerializer(many=True)


class FileSerializer(serializers.ModelSerializer[ManifestEntry]):
    """A file of a version."""

    digest = serializers.CharField(source="blob.digest")

    class Meta:
        model = ManifestEntry
        fields = ["path", "source", "digest", "size"]


class PartWishSerializer(serializers.Serializer[Any]):
    """A part about to be sent: the blob's digest, the part's number from 0, and its own SHA-256."""

    digest = serializers.RegexField(r"^[0-9a-f]{64}\Z")
    number = serializers.IntegerField(min_value=0)
    sha256 = serializers.RegexField(r"^[0-9a-f]{64}\Z")


class PartsWishSerializer(serializers.Serializer[Any]):
    parts = serializers.ListField(child=PartWishSerializer(), min_length=1, max_length=MAX_PARTS_AT_ONCE)


class SignedRequestSerializer(serializers.Serializer[Any]):
    """A request that is allowed as it stands. An address that begins with / is below the farm's own."""

    method = serializers.CharField()
    url = serializers.CharField()
    headers = serializers.DictField(child=serializers.CharField())


class PartGrantSerializer(serializers.Serializer[Any]):
    """How to send a part: `length` bytes, by 15 minutes from now."""

    digest = serializers.CharField()
    number = serializers.IntegerField()
    length = serializers.IntegerField()
    request = SignedRequestSerializer(allow_null=True, help_text="Null: the file is there already; do not send it.")


class PartGrantsSerializer(serializers.Serializer[Any]):
    parts = PartGrantSerializer(many=True)


class FinishedPartSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    length = serializers.IntegerField()
    sha256 = serializers.CharField()


class FinishedPartsSerializer(serializers.Serializer[Any]):
    """The parts of a file that the store has. Once the whole file is there it has no parts any more."""

    there = serializers.BooleanField()
    results = FinishedPartSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="Cursor of the next page.")


class SentSerializer(serializers.Serializer[Any]):
    """Digests whose parts have all been sent; none: only look whether the version is whole by now."""

    digests = serializers.ListField(
        child=serializers.RegexField(r"^[0-9a-f]{64}\Z"), max_length=MAX_DIGESTS_AT_ONCE, allow_empty=True
    )


class ConfirmationSerializer(serializers.Serializer[Any]):
    """What the store found."""

    digest = serializers.CharField()
    answer = serializers.ChoiceField(choices=["there", "incomplete", "mismatch"])
    missing = serializers.ListField(child=serializers.IntegerField(), help_text="Part numbers, if incomplete.")
    why = serializers.CharField(allow_blank=True, help_text="If mismatch: what was found, and what to do.")


class ConfirmationsSerializer(serializers.Serializer[Any]):
    status = serializers.ChoiceField(choices=list(VersionStatus))
    blobs = ConfirmationSerializer(many=True)


# --- scenes


class ScenesView(ApiView):
    """The studio's scenes."""

    scopes = {"GET": Scope.SCENES_READ, "POST": Scope.SCENES_WRITE}

    @extend_schema(
        responses=page_schema(SceneSerializer),
        operation_id="scenes_list",
        parameters=[
            OpenApiParameter("project", OpenApiTypes.UUID),
            OpenApiParameter("name", str, description="The whole name, in any case."),
        ],
    )
    def get(self, request: Request) -> Response:
        filters = {"project": by_id("project_id", "project"), "name": lambda rows, v: rows.filter(name__iexact=v)}
        return page(request, Scene.objects.all(), SceneSerializer, filters=filters)

    @extend_schema(request=SceneSerializer, responses={201: SceneSerializer}, operation_id="scenes_create")
    @once
    def post(self, request: Request) -> Response:
        """Make a scene of a project."""
        wish = self.parse(request, SceneSerializer)
        project = project_of(wish["project_id"])
        scene = services.create_scene(caller(request), project=project, name=wish["name"])
        return Response(SceneSerializer(scene).data, status=201)


class SceneView(ApiView):
    """One scene."""

    scopes = {"GET": Scope.SCENES_READ}

    @extend_schema(responses=SceneDetailSerializer, operation_id="scenes_get")
    def get(self, request: Request, scene_id: UUID) -> Response:
        scene = selectors.scene_of(scene_id)
        scene.latest_version = selectors.latest_version(scene.pk)  # type: ignore[attr-defined]
        return Response(SceneDetailSerializer(scene).data)


class VersionsView(ApiView):
    """The versions of a scene."""

    scopes = {"GET": Scope.SCENES_READ, "POST": Scope.SCENES_WRITE}

    @extend_schema(
        responses=page_schema(VersionSerializer),
        operation_id="scenes_versions_list",
        parameters=[OpenApiParameter("status", str, description="One or several, separated by commas.")],
    )
    def get(self, request: Request, scene_id: UUID) -> Response:
        rows = SceneVersion.objects.defer("report").filter(scene=selectors.scene_of(scene_id))
        return page(
            request, rows, VersionSerializer, filters={"status": by_choice("status", "status", list(VersionStatus))}
        )

    @extend_schema(
        request=ManifestSerializer, responses={201: NewVersionSerializer}, operation_id="scenes_versions_create"
    )
    @once
    def post(self, request: Request, scene_id: UUID) -> Response:
        """Begin a version: the answer names the contents that the farm lacks."""
        scene = selectors.scene_of(scene_id)
        manifest = read_manifest(**_fields(request.data))
        version, missing = services.create_version(caller(request), scene, manifest, now=timezone.now())
        sizes = manifest.sizes()
        return Response(
            {
                "version": VersionSerializer(version).data,
                "missing": [{"digest": digest, "size": sizes[digest]} for digest in missing],
            },
            status=201,
        )


def _fields(body: Any) -> dict[str, Any]:
    """
    Give a manifest's two fields; its files are checked by the pure rules, which are quicker than a serializer.

    :raises Invalid: a field there should not be
    """
    if not isinstance(body, dict):
        raise Invalid("body", "give an object with entry and files")
    for name in body.keys() - {"entry", "files"}:
        raise Invalid(name, "there is no such field")
    return {"entry": body.get("entry"), "files": body.get("files")}


# --- versions


class VersionView(ApiView):
    """One version of a scene."""

    scopes = {"GET": Scope.SCENES_READ}

    @extend_schema(responses=VersionDetailSerializer, operation_id="scene_versions_get")
    def get(self, request: Request, version_id: UUID) -> Response:
        return Response(VersionDetailSerializer(selectors.version_of(version_id)).data)


class FilesView(ApiView):
    """The files of a version."""

    scopes = {"GET": Scope.SCENES_READ}

    @extend_schema(responses=page_schema(FileSerializer), operation_id="scene_versions_files")
    def get(self, request: Request, version_id: UUID) -> Response:
        rows = ManifestEntry.objects.filter(version=selectors.version_of(version_id)).select_related("blob")
        return page(request, rows, FileSerializer, newest_first=False)


class MissingView(ApiView):
    """What a version lacks."""

    scopes = {"GET": Scope.SCENES_READ}

    @extend_schema(responses=page_schema(MissingBlobSerializer), operation_id="scene_versions_missing")
    def get(self, request: Request, version_id: UUID) -> Response:
        rows = selectors.missing_of(selectors.version_of(version_id).pk)
        return page(request, rows, MissingBlobSerializer, newest_first=False)


class PartsView(ApiView):
    """The parts of a version's files."""

    scopes = {"GET": Scope.SCENES_WRITE, "POST": Scope.SCENES_WRITE}

    @extend_schema(
        responses=FinishedPartsSerializer,
        operation_id="scene_versions_parts_list",
        parameters=[
            OpenApiParameter("digest", str, required=True),
            OpenApiParameter("limit", int, description=f"1–{MAX_PART_PAGE}, {MAX_PART_PAGE} unless said."),
            OpenApiParameter("cursor", str),
        ],
    )
    def get(self, request: Request, version_id: UUID) -> Response:
        """List the finished parts of a file, so that a resumed upload sends only the others."""
        version = selectors.version_of(version_id)
        query = query_of(request.query_params, {"digest", "limit", "cursor"})
        limit = parse_number(query.get("limit", str(MAX_PART_PAGE)), "limit", least=1, most=MAX_PART_PAGE)
        after = parse_number(query.get("cursor", "-1"), "cursor", least=-1, most=MAX_PARTS)
        there, parts = services.finished_parts(version, query.get("digest", ""), after=after, limit=limit + 1)
        more = len(parts) > limit
        parts = parts[:limit]
        return Response(
            {
                "there": there,
                "results": FinishedPartSerializer(parts, many=True).data,
                "next": str(parts[-1].number) if more else None,
            }
        )

    @extend_schema(
        request=PartsWishSerializer, responses=PartGrantsSerializer, operation_id="scene_versions_parts_sign"
    )
    def post(self, request: Request, version_id: UUID) -> Response:
        """Sign the requests that send parts: at most 500 at once, as the client gets to them."""
        version = selectors.version_of(version_id)
        wishes = [PartWish(**part) for part in self.parse(request, PartsWishSerializer)["parts"]]
        grants = services.sign_parts(version, wishes, now=timezone.now())
        return Response({"parts": [_grant(grant) for grant in grants]})


def _grant(grant: PartGrant) -> dict[str, Any]:
    return {
        "digest": grant.digest,
        "number": grant.number,
        "length": grant.length,
        "request": encode(grant.request),
    }


class SentView(ApiView):
    """Confirmation of what was sent."""

    scopes = {"POST": Scope.SCENES_WRITE}

    @extend_schema(
        request=SentSerializer, responses=ConfirmationsSerializer, operation_id="scene_versions_blobs_confirm"
    )
    def post(self, request: Request, version_id: UUID) -> Response:
        """Compare what was sent with its digest; when all files are there, the version becomes whole."""
        version = selectors.version_of(version_id)
        digests = self.parse(request, SentSerializer)["digests"]
        confirmations = services.confirm_blobs(version, digests, now=timezone.now())
        return Response({"status": version.status, "blobs": ConfirmationSerializer(confirmations, many=True).data})


class ReportView(ApiView):
    """What inspection found."""

    scopes = {"GET": Scope.SCENES_READ}

    @extend_schema(responses=ReportSerializer, operation_id="scene_versions_report")
    def get(self, request: Request, version_id: UUID) -> Response:
        """Give the inspection's report: scenes, cameras, layers, frames, and every dependency found or missing."""
        version = selectors.version_of(version_id)
        if version.report is None:
            raise ReportMissing(status=version.status)
        return Response(version.report)


urls = [
    path("scenes", ScenesView.as_view()),
    path("scenes/<uuid:scene_id>", SceneView.as_view()),
    path("scenes/<uuid:scene_id>/versions", VersionsView.as_view()),
    path("scene-versions/<uuid:version_id>", VersionView.as_view()),
    path("scene-versions/<uuid:version_id>/files", FilesView.as_view()),
    path("scene-versions/<uuid:version_id>/missing", MissingView.as_view()),
    path("scene-versions/<uuid:version_id>/parts", PartsView.as_view()),
    path("scene-versions/<uuid:version_id>/blobs", SentView.as_view()),
    path("scene-versions/<uuid:version_id>/report", ReportView.as_view()),
]
