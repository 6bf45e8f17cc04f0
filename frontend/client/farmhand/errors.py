"""What can go wrong: each class is named after the reason, and says what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class FieldError(TypedDict):
    """What is wrong with one field of a request."""

    field: str | None
    code: str
    detail: str
    params: dict[str, Any]


class FarmhandError(Exception):
    """Base of all that this package raises on purpose. `code` is for programs, `detail` for people."""

    code = "failed"

    @property
    def detail(self) -> str:
        return str(self)

    def problem(self) -> dict[str, Any]:
        """Give the error as plain values, in the shape the farm itself uses."""
        return {"code": self.code, "detail": self.detail, "errors": [], "params": {}}


class FarmError(FarmhandError):
    """The farm refused. `code` is stable; `errors` names the fields at fault."""

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        *,
        status: int = 0,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.errors = list(errors)
        self.status = status
        self.params = dict(params or {})

    def problem(self) -> dict[str, Any]:
        return {"code": self.code, "detail": self.detail, "errors": self.errors, "params": self.params}


class Refused(FarmhandError):
    """This cannot be done."""

    # Of this package's own refusals: the docstring is the sentence a person reads, with {words}.
    def __init__(self, **words: Any) -> None:
        super().__init__(" ".join((type(self).__doc__ or "").format(**words).split()))
        self.words = words


class Unreachable(Refused):
    """The farm at {url} does not answer: {why}. Check the address and the network, then try again."""

    code = "unreachable"


class AnswerLost(Refused):
    """
    The line broke before the farm at {url} answered ({what}). It may have been done: look before you ask again.
    """

    code = "answer-lost"


class NoFarm(Refused):
    """What answers at {url} is no Farmhand farm ({why}). Check the address."""

    code = "no-farm"


class NotLoggedIn(Refused):
    """There is no token for {url}. Run `farmhand login`, or set FARMHAND_TOKEN."""

    code = "not-logged-in"
