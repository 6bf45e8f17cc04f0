"""How people sign in: what django-allauth asks of a farm, and the links that let somebody in for the first time."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter, get_adapter
from allauth.account.forms import default_token_generator
from allauth.account.models import EmailAddress
from allauth.account.signals import password_reset
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest

from farm.core.addresses import address_of
from farm.core.errors import Refusal
from farm.studios.models import User
from farm.studios.selectors import user_of


class WeakPassword(Refusal):
    """The password is not good enough: {why}"""

    code = "weak-password"
    status = 422


class AccountClosed(Refusal):
    """The account of {email} is closed. Ask whoever runs the farm to open it."""

    code = "account-closed"
    status = 403


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """People are invited, unless the operator lets them register themselves."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return bool(settings.FARM_SELF_REGISTRATION)

    def get_client_ip(self, request: HttpRequest) -> str:
        """Give the address that limits on guessing count by."""
        address = address_of(request)
        if address is None:
            raise PermissionDenied("the address of whoever asks is not known")
        return address

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        # Of allauth, with the name that the farm was called by; a guesser has as many of these as there are ports.
        return str(credentials.get("email", "")).lower()


def first_link(user: User) -> str:
    """
    Give the address at which a person sets a password, once, and is signed in.

    It is a password reset as the person could ask for by mail: whoever uses it is taken for the mail's owner. What
    somebody set for the mail without ever showing that it is theirs ends at once.
    """
    if not owns_mail(user, user.email):
        _forget_claims(user)
    key = f"{user_pk_to_url_str(user)}-{default_token_generator.make_token(user)}"
    return f"{settings.FARM_URL}/set-password/{key}"


@receiver(password_reset)
def note_the_mail_is_theirs(sender: object, user: User, **more: Any) -> None:
    """Take the mail of who used a link that was sent there, or that the operator gave, as shown to be theirs."""
    if not EmailAddress.objects.filter(user=user, verified=True).exists():
        _verify(user, user.email)


def owns_mail(user: User, email: str) -> bool:
    """Say whether a person has shown that a mail address is theirs."""
    return bool(EmailAddress.objects.filter(user=user, email=email.lower(), verified=True).exists())


def has_account(email: str) -> bool:
    """Say whether somebody can sign in with this mail address."""
    found = _person_of(email)
    return found is not None and found.is_active and found.has_usable_password() and owns_mail(found, email)


@transaction.atomic
def open_account(email: str, *, name: str, password: str) -> User:
    """
    Make the account of a mail's owner, or take it from whoever claimed the address without owning it.

    :raises AccountClosed: the operator closed it
    :raises WeakPassword: the password is too easy to guess
    """
    found = _person_of(email) or User.objects.get_or_create(email=email.lower())[0]
    user = User.objects.select_for_update(no_key=True).get(pk=found.pk)
    if not user.is_active:
        raise AccountClosed(email=email)
    user.name = name
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise WeakPassword(why=" ".join(error.messages), field="password") from None
    _forget_claims(user)
    user.set_password(password)
    user.save(update_fields=["name", "password"])
    _verify(user, email)
    return user


def sign_in(request: HttpRequest, user: User) -> None:
    """Begin a session for somebody who has just shown who they are."""
    get_adapter().login(request, user)


def _person_of(email: str) -> User | None:
    shown = EmailAddress.objects.select_related("user").filter(email=email.lower(), verified=True).first()
    return shown.user if shown else user_of(email)


def _forget_claims(user: User) -> None:
    """Drop a password and unverified addresses; links that would verify them, and sessions, end with them."""
    EmailAddress.objects.filter(user=user, verified=False).delete()
    if user.has_usable_password():  # otherwise links that were given before stay good
        user.set_unusable_password()
        user.save(update_fields=["password"])


def _verify(user: User, email: str) -> None:
    address, _ = EmailAddress.objects.get_or_create(user=user, email=email.lower())
    if address.set_verified():  # unless somebody else has shown that it is theirs
        address.set_as_primary(conditional=True)
