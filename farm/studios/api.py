"""`/api/v1/me`, `/projects`, `/tokens`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import NotFound
from farm.core.names import NameField
from farm.core.pages import page, page_schema
from farm.core.views import ApiView, once
from farm.studios import services
from farm.studios.authentication import caller
from farm.studios.models import ApiToken, Project
from farm.studios.roles import Scope


class MeSerializer(serializers.Serializer[Any]):
    """Who the token acts for."""

    user = serializers.EmailField()
    studio = serializers.CharField()
    studio_id = serializers.UUIDField()
    currency = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())


class ProjectSerializer(serializers.ModelSerializer[Project]):
    """A show or commission."""

    name = NameField()

    class Meta:
        model = Project
        fields = ["id", "name", "region", "is_paused", "created_at"]
        read_only_fields = ["is_paused", "created_at"]
        extra_kwargs = {"region": {"required": False}}


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A credential; its text is shown once, when it is made."""

    class Meta:
        model = ApiToken
        fields = ["id", "name", "prefix", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at"]


class NewTokenSerializer(serializers.Serializer[Any]):
    """What a new token is called, and may do for how long."""

    name = NameField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=list(Scope)), min_length=1)
    days = serializers.IntegerField(min_value=1, max_value=services.MAX_TOKEN_DAYS, default=90)


class IssuedTokenSerializer(serializers.Serializer[Any]):
    """A new token, with its text."""

    token = serializers.CharField(help_text="Shown this once; the farm keeps only a digest.")
    details = TokenSerializer()


class MeView(ApiView):
    """The caller."""

    scopes = {"GET": Scope.STUDIO_READ}

    @extend_schema(responses=MeSerializer, operation_id="me")
    def get(self, request: Request) -> Response:
        asking = caller(request)
        return Response(
            {
                "user": asking.user.email,
                "studio": asking.studio.name,
                "studio_id": asking.studio.id,
                "currency": asking.studio.currency,
                "scopes": sorted(asking.scopes),
            }
        )


class ProjectsView(ApiView):
    """The studio's projects."""

    scopes = {"GET": Scope.STUDIO_READ, "POST": Scope.STUDIO_WRITE}

    @extend_schema(
        responses=page_schema(ProjectSerializer),
        operation_id="projects_list",
        parameters=[OpenApiParameter("name", str, description="The whole name, in any case.")],
    )
    def get(self, request: Request) -> Response:
        return page(
            request,
            Project.objects.all(),
            ProjectSerializer,
            filters={"name": lambda rows, v: rows.filter(name__iexact=v)},
        )

    @extend_schema(request=ProjectSerializer, responses={201: ProjectSerializer}, operation_id="projects_create")
    @once
    def post(self, request: Request) -> Response:
        """Make a project; its bytes stay in its region."""
        project = services.create_project(caller(request), **self.parse(request, ProjectSerializer))
        return Response(ProjectSerializer(project).data, status=201)


class TokensView(ApiView):
    """The studio's API tokens."""

    scopes = {"GET": Scope.STUDIO_READ, "POST": Scope.STUDIO_WRITE}

    @extend_schema(responses=page_schema(TokenSerializer), operation_id="tokens_list")
    def get(self, request: Request) -> Response:
        return page(request, ApiToken.objects.all(), TokenSerializer)

    @extend_schema(request=NewTokenSerializer, responses={201: IssuedTokenSerializer}, operation_id="tokens_create")
    def post(self, request: Request) -> Response:
        """Make a token for yourself. The answer alone has its text: asked twice, there are two."""
        wish = self.parse(request, NewTokenSerializer)
        token, text = services.issue_own_token(caller(request), now=timezone.now(), **wish)
        return Response({"token": text, "details": TokenSerializer(token).data}, status=201)


class TokenView(ApiView):
    """One API token."""

    scopes = {"DELETE": Scope.STUDIO_WRITE}

    @extend_schema(responses={204: None}, operation_id="tokens_revoke")
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke the token at once."""
        token = ApiToken.objects.filter(pk=token_id).first()
        if token is None:
            raise NotFound(what="token", id=token_id)
        services.revoke_token(caller(request), token, now=timezone.now())
        return Response(status=204)


urls = [
    path("me", MeView.as_view()),
    path("projects", ProjectsView.as_view()),
    path("tokens", TokensView.as_view()),
    path("tokens/<uuid:token_id>", TokenView.as_view()),
]
