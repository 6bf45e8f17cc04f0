"""How people sign in: what django-allauth asks of a farm, and the link that lets somebody in for the first time."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import default_token_generator
from allauth.account.models import EmailAddress
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.http import HttpRequest

from farm.studios.models import User


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """People are invited, unless the operator lets them register themselves."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return bool(settings.FARM_SELF_REGISTRATION)


def first_link(user: User) -> str:
    """
    Give the address at which a person sets a password, once, and is signed in.

    It is a password reset as the person could ask for by mail, so whoever holds it is taken for the mail's owner.
    """
    EmailAddress.objects.update_or_create(
        user=user, email=user.email.lower(), defaults={"verified": True, "primary": True}
    )
    key = f"{user_pk_to_url_str(user)}-{default_token_generator.make_token(user)}"
    return f"{settings.FARM_URL}/set-password/{key}"
