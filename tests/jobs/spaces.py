"""Parameter spaces for property tests: ranges as people write them, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import strategies as st


@dataclass(frozen=True)
class Written:
    """A range, and the numbers it names."""

    text: str
    numbers: frozenset[int]


@st.composite
def ranges(draw: st.DrawFn, *, most_parts: int = 4) -> Written:
    """Draw parts that do not touch, ascending or descending, with and without steps, in any order."""
    at = draw(st.integers(-50, 50))
    parts, numbers = [], set[int]()
    for _ in range(draw(st.integers(1, most_parts))):
        span, step = draw(st.integers(0, 12)), draw(st.integers(1, 5))
        low, high = at, at + span
        if span == 0:
            parts.append(str(low))
            numbers.add(low)
        elif draw(st.booleans()):
            parts.append(f"{high}-{low}:-{step}")
            numbers |= set(range(high, low - 1, -step))
        else:
            parts.append(f"{low}-{high}" + (f":{step}" if step > 1 or draw(st.booleans()) else ""))
            numbers |= set(range(low, high + 1, step))
        at = high + draw(st.integers(2, 9))
    space = draw(st.sampled_from(["", " "]))
    return Written(f"{space},{space}".join(draw(st.permutations(parts))), frozenset(numbers))


def template(
    parameters: list[dict[str, Any]], combination: str | None = None, *, extensions: tuple[str, ...] = ()
) -> str:
    """Write a template with one step of this space."""
    space: dict[str, Any] = {"taskParameterDefinitions": parameters}
    if combination:
        space["combination"] = combination
    document: dict[str, Any] = {
        "specificationVersion": "jobtemplate-2023-09",
        "name": "Space",
        "steps": [
            {"name": "Only", "parameterSpace": space, "script": {"actions": {"onRun": {"command": "true"}}}},
        ],
    }
    if extensions:
        document["extensions"] = list(extensions)
    return yaml.safe_dump(document, sort_keys=False)


@st.composite
def templates(draw: st.DrawFn) -> str:
    """Draw spaces of up to three parameters, multiplied, or some of them zipped."""
    first = draw(ranges(most_parts=2))
    size = draw(st.integers(1, 4))
    words = st.lists(st.sampled_from("abcdef"), min_size=size, max_size=size)
    parameters: list[dict[str, Any]] = [
        {"name": "Frame", "type": "INT", "range": first.text},
        {"name": "Layer", "type": "STRING", "range": draw(words)},
        {"name": "Eye", "type": "STRING", "range": draw(words)},
    ]
    shape = draw(st.sampled_from([1, 2, 3]))
    wishes: dict[int, list[str | None]] = {
        1: [None],
        2: [None, "Frame * Layer", "Layer * Frame"],
        3: [None, "Frame * (Layer, Eye)", "(Eye, Layer) * Frame", "Eye * Frame * Layer"],
    }
    return template(parameters[:shape], draw(st.sampled_from(wishes[shape])))
