"""`/api/v1/me`, `/studio`, `/members`, `/invitations`, `/projects`, `/tokens`; operators' `/studios`, `/looks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.addresses import address_of
from farm.core.names import NameField
from farm.core.pages import Filter, page, page_schema
from farm.core.views import ApiView, once
from farm.studios import accounts, invitations, members, operators, services
from farm.studios.authentication import Caller, Person, VisitorAuthentication, asking, caller
from farm.studios.models import ApiToken, Invitation, Membership, Project, Studio, User
from farm.studios.roles import Role, Scope
from farm.studios.selectors import tokens_seen_by
from farm.studios.tenancy import become_farm, beyond_one_studio


class MyStudioSerializer(serializers.Serializer[Any]):
    """A studio that the caller is a member of."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=list(Role))


class MeSerializer(serializers.Serializer[Any]):
    """Who the token or session acts for; a session may choose another of `studios` by the header X-Farm-Studio."""

    user = serializers.EmailField()
    user_id = serializers.UUIDField()
    name = serializers.CharField()
    language = serializers.CharField(help_text="en, zh-CN, or empty: as the browser says")
    zone = serializers.CharField(help_text="IANA zone of the times shown, or empty: the browser's")
    is_operator = serializers.BooleanField()
    studios = MyStudioSerializer(many=True)
    studio = serializers.CharField(allow_null=True, help_text="Null, as the two next: a member of no studio")
    studio_id = serializers.UUIDField(allow_null=True)
    currency = serializers.CharField(allow_null=True)
    is_looking = serializers.BooleanField(help_text="As an operator, in a studio that is not theirs: only looking")
    scopes = serializers.ListField(child=serializers.CharField())


class ProfileSerializer(serializers.Serializer[Any]):
    """How a person is called and spoken to; what is left out stays."""

    name = NameField(required=False, allow_blank=True)
    language = serializers.CharField(required=False, allow_blank=True, max_length=16)
    zone = serializers.CharField(required=False, allow_blank=True, max_length=64)


class StudioSerializer(serializers.ModelSerializer[Studio]):
    """The studio; its currency never changes."""

    name = NameField()

    class Meta:
        model = Studio
        fields = ["id", "name", "currency", "zone", "is_paused", "created_at"]


class ChangedStudioSerializer(serializers.Serializer[Any]):
    """What changes of the studio; what is left out stays."""

    name = NameField(required=False)
    zone = serializers.CharField(required=False, max_length=64)


class MemberSerializer(serializers.ModelSerializer[Membership]):
    """A person's role in the studio."""

    user_id = serializers.UUIDField(source="user.id")
    email = serializers.EmailField(source="user.email")
    name = serializers.CharField(source="user.name")
    last_seen_at = serializers.DateTimeField(source="user.last_login", allow_null=True)

    class Meta:
        model = Membership
        fields = ["id", "user_id", "email", "name", "role", "last_seen_at", "created_at"]


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """Somebody asked into the studio who has not answered yet; past `expires_at` it leads nowhere until sent again."""

    inviter = serializers.CharField(help_text="How who invited them is called, or their mail address")

    class Meta:
        model = Invitation
        fields = ["id", "email", "role", "inviter", "created_at", "sent_at", "expires_at"]


class NewInvitationSerializer(serializers.Serializer[Any]):
    """Whom to invite, as what."""

    email = serializers.EmailField(max_length=254)
    role = serializers.ChoiceField(choices=list(Role))


class OpenInvitationSerializer(serializers.Serializer[Any]):
    """What an invitation's link leads to."""

    studio = serializers.CharField()
    email = serializers.EmailField()
    role = serializers.ChoiceField(choices=list(Role))
    inviter = serializers.CharField(help_text="How who invited you is called, or their mail address")
    has_account = serializers.BooleanField(help_text="Sign in as `email` to accept; false: give a name and a password")
    expires_at = serializers.DateTimeField()


class AcceptSerializer(serializers.Serializer[Any]):
    """Nothing, from one who is signed in; else what makes the account."""

    name = NameField(required=False)
    password = serializers.CharField(required=False, max_length=128, trim_whitespace=False)


class JoinedSerializer(serializers.Serializer[Any]):
    """The studio that one is a member of now."""

    studio = serializers.CharField()
    studio_id = serializers.UUIDField()
    role = serializers.ChoiceField(choices=list(Role))


class RoleSerializer(serializers.Serializer[Any]):
    """A member's new role."""

    role = serializers.ChoiceField(choices=list(Role))


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

    owner_id = serializers.UUIDField(source="user_id")
    owner = serializers.CharField(help_text="How its owner is called, or their mail address; empty: they have left")

    class Meta:
        model = ApiToken
        fields = [
            "id",
            "name",
            "prefix",
            "owner_id",
            "owner",
            "scopes",
            "created_at",
            "expires_at",
            "last_used_at",
            "revoked_at",
        ]


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

    scopes = {"GET": Scope.STUDIO_READ, "PATCH": Scope.ACCOUNT_WRITE}
    is_for_people = True

    @extend_schema(responses=MeSerializer, operation_id="me")
    def get(self, request: Request) -> Response:
        return self._answer(asking(request))

    @extend_schema(request=ProfileSerializer, responses=MeSerializer, operation_id="me_change")
    def patch(self, request: Request) -> Response:
        """Change how you are called, your language and your time zone."""
        members.change_profile(asking(request), **self.parse(request, ProfileSerializer))
        return self._answer(asking(request))

    def _answer(self, me: Caller | Person) -> Response:
        studio = me.studio if isinstance(me, Caller) else None
        with beyond_one_studio(studio.id if studio else ""):
            person = User.objects.get(pk=me.user.id)
        return Response(
            {
                "user": person.email,
                "user_id": person.id,
                "name": person.name,
                "language": person.language,
                "zone": person.zone,
                "is_operator": person.is_operator,
                "studios": [{"id": studio.id, "name": studio.name, "role": str(role)} for studio, role in _mine(me)],
                "studio": studio.name if studio else None,
                "studio_id": studio.id if studio else None,
                "currency": studio.currency if studio else None,
                "is_looking": isinstance(me, Caller) and me.is_looking,
                "scopes": sorted(me.scopes),
            }
        )


def _mine(me: Caller | Person) -> Sequence[tuple[Studio, str]]:
    if isinstance(me, Caller) and me.token:  # a token knows of its own studio alone
        return [(m.studio, m.role) for m in Membership.objects.filter(user_id=me.user.id).select_related("studio")]
    return me.studios if isinstance(me, Caller) else []


class LookSerializer(serializers.Serializer[Any]):
    """Which studio an operator looks into, and why; the studio can read it."""

    studio = serializers.UUIDField()
    reason = NameField()


class OpenLookSerializer(serializers.Serializer[Any]):
    """A look that has begun: name the studio in X-Farm-Studio."""

    studio = serializers.CharField()
    studio_id = serializers.UUIDField()
    until = serializers.DateTimeField()


class StudiosView(ApiView):
    """All studios, for the farm's operators."""

    scopes = {"GET": Scope.STUDIO_READ}
    is_for_people = True

    @extend_schema(
        responses=page_schema(StudioSerializer),
        operation_id="studios_list",
        parameters=[OpenApiParameter("name", str, description="A part of the name, in any case.")],
    )
    def get(self, request: Request) -> Response:
        """Operators only, in a browser."""
        operators.become_onlooker(asking(request))
        by_name: Filter = lambda rows, v: rows.filter(name__icontains=v)
        return page(request, Studio.objects.all(), StudioSerializer, filters={"name": by_name})


class LooksView(ApiView):
    """An operator's looks into studios."""

    scopes = {"POST": Scope.ACCOUNT_WRITE}
    is_for_people = True

    @extend_schema(request=LookSerializer, responses=OpenLookSerializer, operation_id="looks_create")
    def post(self, request: Request) -> Response:
        """Look into a studio for an hour, changing nothing; it is written in the studio's audit log. Operators only."""
        wish, now = self.parse(request, LookSerializer), timezone.now()
        studio, until = operators.look_into(asking(request), wish["studio"], reason=wish["reason"], now=now)
        return Response({"studio": studio.name, "studio_id": studio.id, "until": until})


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


class StudioView(ApiView):
    """The studio."""

    scopes = {"GET": Scope.STUDIO_READ, "PATCH": Scope.STUDIO_WRITE}

    @extend_schema(responses=StudioSerializer, operation_id="studio_get")
    def get(self, request: Request) -> Response:
        return Response(StudioSerializer(Studio.objects.get(pk=caller(request).studio.id)).data)

    @extend_schema(request=ChangedStudioSerializer, responses=StudioSerializer, operation_id="studio_change")
    def patch(self, request: Request) -> Response:
        """Rename it, or let its months follow another zone."""
        wish = self.parse(request, ChangedStudioSerializer)
        return Response(StudioSerializer(members.change_studio(caller(request), **wish)).data)


class MembersView(ApiView):
    """The studio's people."""

    scopes = {"GET": Scope.STUDIO_READ}

    @extend_schema(responses=page_schema(MemberSerializer), operation_id="members_list")
    def get(self, request: Request) -> Response:
        people = User.objects.only("id", "email", "name", "last_login")
        return page(request, Membership.objects.prefetch_related(Prefetch("user", people)), MemberSerializer)


class MemberView(ApiView):
    """One member of the studio."""

    scopes = {"PATCH": Scope.STUDIO_WRITE, "DELETE": Scope.STUDIO_WRITE}

    @extend_schema(request=RoleSerializer, responses=MemberSerializer, operation_id="members_change")
    def patch(self, request: Request, member_id: UUID) -> Response:
        """Give the member another role."""
        role = Role(self.parse(request, RoleSerializer)["role"])
        changed = members.change_role(caller(request), member_id, role=role, now=timezone.now())
        return Response(MemberSerializer(changed).data)

    @extend_schema(responses={204: None}, operation_id="members_remove")
    def delete(self, request: Request, member_id: UUID) -> Response:
        """Take the member out of the studio; their tokens for it end at once."""
        members.remove_member(caller(request), member_id, now=timezone.now())
        return Response(status=204)


class InvitationsView(ApiView):
    """Who was asked into the studio and has not answered yet."""

    scopes = {"GET": Scope.STUDIO_READ, "POST": Scope.STUDIO_WRITE}

    @extend_schema(responses=page_schema(InvitationSerializer), operation_id="members_invitations")
    def get(self, request: Request) -> Response:
        return page(request, invitations.pending(), InvitationSerializer)

    @extend_schema(
        request=NewInvitationSerializer, responses={201: InvitationSerializer}, operation_id="members_invite"
    )
    @once
    def post(self, request: Request) -> Response:
        """Invite somebody by mail; they are a member once they accept."""
        wish = self.parse(request, NewInvitationSerializer)
        made = invitations.invite(caller(request), email=wish["email"], role=Role(wish["role"]), now=timezone.now())
        return Response(InvitationSerializer(made).data, status=201)


class InvitationView(ApiView):
    """One invitation that waits for an answer."""

    scopes = {"DELETE": Scope.STUDIO_WRITE}

    @extend_schema(responses={204: None}, operation_id="members_invitations_revoke")
    def delete(self, request: Request, invitation_id: UUID) -> Response:
        """Take it back: its link leads nowhere from now on."""
        invitations.revoke(caller(request), invitation_id, now=timezone.now())
        return Response(status=204)


class ResendView(ApiView):
    """An invitation once more."""

    scopes = {"POST": Scope.STUDIO_WRITE}

    @extend_schema(request=None, responses=InvitationSerializer, operation_id="members_invitations_resend")
    def post(self, request: Request, invitation_id: UUID) -> Response:
        """Send it again, good for another week; the link of the mail before ends."""
        again = invitations.resend(caller(request), invitation_id, now=timezone.now())
        return Response(InvitationSerializer(again).data)


class OpenInvitationView(ApiView):
    """What an invitation's mail leads to. Its token is all that is asked for."""

    is_open = True
    authentication_classes = []
    permission_classes = []

    @extend_schema(responses=OpenInvitationSerializer, operation_id="invitations_get", auth=[])
    def get(self, request: Request, token: str) -> Response:
        """Say who invites whom, and whether the address has an account to sign in with."""
        with beyond_one_studio(""):
            found = invitations.open_invitation(token, now=timezone.now())
            has_account = accounts.has_account(found.email)
        inviter = found.invited_by
        return Response(
            {
                "studio": found.studio.name,
                "email": found.email,
                "role": found.role,
                "inviter": (inviter.name or inviter.email) if inviter else "",
                "has_account": has_account,
                "expires_at": found.expires_at,
            }
        )


class AcceptView(ApiView):
    """Yes to an invitation."""

    is_open = True
    authentication_classes = [VisitorAuthentication]
    permission_classes = []

    @extend_schema(request=AcceptSerializer, responses=JoinedSerializer, operation_id="invitations_accept", auth=[])
    def post(self, request: Request, token: str) -> Response:
        """Join: as who is signed in, or with a new account of this name and password, which is then signed in."""
        wish = self.parse(request, AcceptSerializer)
        become_farm()  # for the rest of this request, which is about a person and no studio of theirs yet
        membership = self._join(request, token, wish)
        studio = membership.studio
        return Response({"studio": studio.name, "studio_id": studio.id, "role": membership.role})

    def _join(self, request: Request, token: str, wish: dict[str, str]) -> Membership:
        when: dict[str, Any] = {"now": timezone.now(), "address": address_of(request._request)}
        if isinstance(request.user, User):
            return invitations.join(token, request.user, **when)
        membership = invitations.join_anew(token, name=wish.get("name", ""), password=wish.get("password", ""), **when)
        accounts.sign_in(request._request, membership.user)
        return membership


class TokensView(ApiView):
    """API tokens: one's own; for who runs the studio, everybody's."""

    scopes = {"GET": Scope.STUDIO_READ, "POST": Scope.ACCOUNT_WRITE}

    @extend_schema(responses=page_schema(TokenSerializer), operation_id="tokens_list")
    def get(self, request: Request) -> Response:
        return page(request, tokens_seen_by(caller(request)), TokenSerializer)

    @extend_schema(request=NewTokenSerializer, responses={201: IssuedTokenSerializer}, operation_id="tokens_create")
    def post(self, request: Request) -> Response:
        """
        Make a token for yourself, that may no more than you may here. The answer alone has its text.

        Made with a token, it ends with that one. Asked twice, there are two.
        """
        wish = self.parse(request, NewTokenSerializer)
        token, text = services.issue_own_token(caller(request), now=timezone.now(), **wish)
        details = tokens_seen_by(caller(request)).get(pk=token.pk)
        return Response({"token": text, "details": TokenSerializer(details).data}, status=201)


class TokenView(ApiView):
    """One API token."""

    scopes = {"DELETE": Scope.ACCOUNT_WRITE}

    @extend_schema(responses={204: None}, operation_id="tokens_revoke")
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke the token at once, with all that were made with it: one's own; who runs the studio, anybody's."""
        services.revoke_token(caller(request), token_id, now=timezone.now())
        return Response(status=204)


urls = [
    path("me", MeView.as_view()),
    path("looks", LooksView.as_view()),
    path("studios", StudiosView.as_view()),
    path("studio", StudioView.as_view()),
    path("members", MembersView.as_view()),
    path("members/<uuid:member_id>", MemberView.as_view()),
    path("members/invitations", InvitationsView.as_view()),
    path("members/invitations/<uuid:invitation_id>", InvitationView.as_view()),
    path("members/invitations/<uuid:invitation_id>/resend", ResendView.as_view()),
    path("invitations/<str:token>", OpenInvitationView.as_view()),
    path("invitations/<str:token>/accept", AcceptView.as_view()),
    path("projects", ProjectsView.as_view()),
    path("tokens", TokensView.as_view()),
    path("tokens/<uuid:token_id>", TokenView.as_view()),
]
