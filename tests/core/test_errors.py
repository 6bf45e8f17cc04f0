"""Refusals: the docstring is the sentence."""

from __future__ import annotations

import importlib
import pkgutil
import string

import pytest

import farm
from farm.core.errors import Invalid, Refusal, Refusals, raise_all
from farm.core.storage import StoreFull, StoreRefuses, StoreUnreachable

# A store in trouble is no mistake of whoever asks. Everything else that a refusal says is.
NOBODYS_MISTAKE: dict[type[Refusal], int] = {StoreFull: 507, StoreUnreachable: 503, StoreRefuses: 503}


class TooTall(Refusal):
    """The {what} is {by:,} mm
    too tall. Saw it off."""

    code = "too-tall"


def all_refusals() -> list[type[Refusal]]:
    """Every refusal of the farm, with all its modules imported."""
    for module in pkgutil.walk_packages(farm.__path__, "farm."):
        if ".migrations" not in module.name and not module.name.endswith(("wsgi", "asgi")):
            importlib.import_module(module.name)
    found, waiting = [], [Refusal]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("farm."):
            found.append(kind)
    return found


class TestSentence:
    def test_it_is_the_docstring_in_one_line_with_the_parameters(self) -> None:
        assert str(TooTall(what="door", by=1200)) == "The door is 1,200 mm too tall. Saw it off."

    def test_a_value_with_braces_is_only_a_value(self) -> None:
        assert str(TooTall(what="{by}", by=1)) == "The {by} is 1 mm too tall. Saw it off."


class TestEveryRefusalOfTheFarm:
    def test_has_a_sentence_a_code_and_a_status_of_its_kind(self) -> None:
        kinds = all_refusals()

        assert len(kinds) > 60
        for kind in kinds:
            sentence = " ".join((kind.__doc__ or "").split())
            assert sentence[:1].isupper() or sentence.startswith("{"), kind
            assert kind.code == kind.code.lower().replace("_", "-").replace(" ", "-"), kind
            assert 400 <= kind.status < 500 or NOBODYS_MISTAKE.get(kind) == kind.status, kind

    def test_names_its_parameters_plainly(self) -> None:
        """So that a sentence in another language can be made of them."""
        for kind in all_refusals():
            for _, name, _, _ in string.Formatter().parse(kind.__doc__ or ""):
                assert name is None or name.isidentifier(), (kind, name)

    def test_shares_no_code_with_one_of_another_meaning(self) -> None:
        shared: dict[str, set[type[Refusal]]] = {}
        for kind in all_refusals():
            if "code" in vars(kind):
                shared.setdefault(kind.code, set()).add(kind)

        several = {code: kinds for code, kinds in shared.items() if len(kinds) > 1}
        # Two ways to have no token, and to write a manifest.
        assert several.keys() <= {"authentication-failed", "manifest-invalid"}, several


class TestRaiseAll:
    def test_of_nothing_nothing_is_raised(self) -> None:
        raise_all([])

    def test_of_one_it_is_raised(self) -> None:
        with pytest.raises(TooTall):
            raise_all([TooTall(what="door", by=1)])

    def test_of_several_all_are_told(self) -> None:
        with pytest.raises(Refusals, match="2 things are wrong") as raised:
            raise_all([TooTall(what="door", by=1), Invalid("roof", "it leaks")])

        assert [r.code for r in raised.value.refusals] == ["too-tall", "invalid"]
        assert "The door is 1 mm too tall." in raised.value.sentence
