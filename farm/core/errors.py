"""Refusals: what the farm says when it will not do what was asked."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar


class Refusal(Exception):
    """The request cannot be carried out."""

    # A subclass's docstring is the message a person reads, with {parameters}; its code is what a program reads.
    code: ClassVar[str] = "refused"
    status: ClassVar[int] = 409

    def __init__(self, *, field: str | None = None, **params: Any) -> None:
        super().__init__()
        self.field = field
        self.params = params

    @property
    def sentence(self) -> str:
        return " ".join(inspect.cleandoc(type(self).__doc__ or "").split()).format(**self.params)

    def __str__(self) -> str:
        return self.sentence


class Invalid(Refusal):
    """The value of {field_name} is not valid: {why}."""

    code = "invalid"
    status = 422

    def __init__(self, field: str, why: str, **params: Any) -> None:
        super().__init__(field=field, field_name=field, why=why, **params)


class NotFound(Refusal):
    """There is no {what} {id} here. Check the id, and that your token belongs to the right studio."""

    code = "not-found"
    status = 404


class Refusals(Refusal):
    """{count} things are wrong with this request: {summary}"""

    code = "several"
    status = 422

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__(count=len(refusals), summary=" ".join(r.sentence for r in refusals))
        self.refusals = refusals


def raise_all(refusals: list[Refusal]) -> None:
    """Raise what was found: nothing, the one refusal, or all of them together."""
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        raise Refusals(refusals)
