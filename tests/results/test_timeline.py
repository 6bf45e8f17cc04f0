"""What a movie shows, and when it is made anew."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.results.timeline import (
    SEGMENT_FRAMES,
    Encoded,
    Mark,
    Proxy,
    Segment,
    cut,
    encode_at,
    join_at,
    lay_out,
    odd_ones,
    padded,
    picture_size,
)

RATE = Fraction(24)


def proxy(name: object, size: tuple[int, int] = (64, 36)) -> Proxy:
    return Proxy(digest=str(name), key=f"key/{name}", width=size[0], height=size[1])


def segments(frames: int, present: set[int], *, again: set[int] = frozenset()) -> list[Segment]:  # type: ignore[assignment]
    proxies = {frame: proxy(f"{frame}b" if frame in again else frame) for frame in present}
    stills = lay_out(range(1, frames + 1), proxies)
    return cut(stills, size=(64, 36), rate=RATE, encoder="e")


class TestLayOut:
    def test_shows_each_frame_by_its_own_picture(self) -> None:
        stills = lay_out([1, 2], {1: proxy(1), 2: proxy(2)})

        assert [(s.frame, s.mark, s.shown) for s in stills] == [(1, Mark.NONE, 1), (2, Mark.NONE, 2)]

    def test_holds_the_last_picture_for_what_is_missing_and_a_slate_before_the_first(self) -> None:
        stills = lay_out([1, 2, 3, 4], {2: proxy(2)})

        assert [(s.mark, s.shown) for s in stills] == [
            (Mark.MISSING, None),
            (Mark.NONE, 2),
            (Mark.MISSING, 2),
            (Mark.MISSING, 2),
        ]

    def test_passes_over_what_cannot_be_opened(self) -> None:
        stills = lay_out([1, 2], {1: proxy(1), 2: proxy(2)}, unreadable=["2"])

        assert [(s.mark, s.shown) for s in stills] == [(Mark.NONE, 1), (Mark.UNREADABLE, 1)]

    @pytest.mark.parametrize("size", [(None, None), (0, 10), (4097, 10)])
    def test_takes_no_picture_without_the_size_of_a_proxy(self, size: tuple[int | None, int | None]) -> None:
        (still,) = lay_out([1], {1: Proxy("1", "key", *size)})

        assert (still.mark, still.proxy) == (Mark.UNREADABLE, None)


class TestCut:
    @given(st.integers(1, 500))
    def test_makes_segments_that_together_are_the_movie(self, frames: int) -> None:
        made = segments(frames, {1})

        assert [s.first for s in made] == list(range(0, frames, SEGMENT_FRAMES))
        assert [still.frame for s in made for still in s.stills] == list(range(1, frames + 1))
        assert [s.index for s in made] == list(range(len(made)))

    @given(st.sets(st.integers(1, 150)), st.integers(1, 150))
    def test_a_changed_frame_changes_its_own_segment_and_those_that_hold_it(
        self, present: set[int], changed: int
    ) -> None:
        present.add(changed)
        before, after = segments(150, present), segments(150, present, again={changed})

        holding = {changed, *(still.frame for s in before for still in s.stills if still.shown == changed)}
        touched = {(frame - 1) // SEGMENT_FRAMES for frame in holding}

        assert {b.index for b, a in zip(before, after, strict=True) if b.inputs != a.inputs} == touched

    def test_another_size_rate_or_encoder_changes_every_segment(self) -> None:
        stills = lay_out([1], {1: proxy(1)})
        made = [
            cut(stills, size=size, rate=rate, encoder=encoder)[0].inputs
            for size, rate, encoder in [
                ((64, 36), RATE, "e"),
                ((64, 38), RATE, "e"),
                ((64, 36), Fraction(24000, 1001), "e"),
                ((64, 36), RATE, "f"),
            ]
        ]

        assert len(set(made)) == 4


class TestSizes:
    def test_the_movie_has_the_size_of_its_first_picture(self) -> None:
        stills = lay_out([1, 2, 3], {2: proxy(2, (10, 20)), 3: proxy(3, (30, 40))})

        assert picture_size(stills) == (10, 20)
        assert odd_ones(stills, (10, 20)) == [(3, (30, 40))]

    def test_there_is_none_without_a_picture(self) -> None:
        assert picture_size(lay_out([1], {})) is None

    @pytest.mark.parametrize(("size", "even"), [((64, 36), (64, 36)), ((65, 36), (66, 36)), ((1, 1), (2, 2))])
    def test_odd_sides_get_one_pixel_more(self, size: tuple[int, int], even: tuple[int, int]) -> None:
        assert padded(size) == even


def encoded(segment: Segment, *, own: int, at: datetime, inputs: str = "others") -> Encoded:
    return Encoded(segment.format, inputs, own, at)


class TestEncodeAt:
    def test_what_never_was_encoded_is_encoded_now(self, now: datetime) -> None:
        (segment,) = segments(10, {1})

        assert encode_at(segment, None, segments=1, is_quiet=False, now=now) == now

    def test_what_has_not_changed_is_never_encoded_again(self, now: datetime) -> None:
        (segment,) = segments(10, {1})
        made = encoded(segment, own=1, at=now, inputs=segment.inputs)

        assert encode_at(segment, made, segments=1, is_quiet=True, now=now + timedelta(days=1)) is None

    def test_what_has_another_form_is_encoded_now(self, now: datetime) -> None:
        (segment,) = segments(10, {1})

        assert encode_at(segment, Encoded("old", "x", 1, now), segments=1, is_quiet=False, now=now) == now

    @pytest.mark.parametrize(
        ("before", "present", "is_quiet", "is_due"),
        [
            (0, 1, False, True),  # its first frame
            (0, 0, False, False),  # only what it holds has changed
            (2, 3, False, False),
            (2, 4, False, True),  # twice as many
            (9, 10, False, True),  # whole
            (2, 3, True, True),  # nothing more is coming
        ],
    )
    def test_what_grew_waits_until_it_is_worth_it(
        self, before: int, present: int, is_quiet: bool, is_due: bool, now: datetime
    ) -> None:
        (segment,) = segments(10, set(range(1, present + 1)))

        at = encode_at(segment, encoded(segment, own=before, at=now), segments=1, is_quiet=is_quiet, now=now)

        assert at == (now if is_due else now + timedelta(seconds=60))

    def test_what_is_long_out_of_date_is_encoded_now_and_longer_movies_wait_longer(self, now: datetime) -> None:
        (segment,) = segments(10, {1, 2, 3})
        made = encoded(segment, own=2, at=now)

        at = encode_at(segment, made, segments=20, is_quiet=False, now=now)

        assert at == now + timedelta(seconds=300)
        assert encode_at(segment, made, segments=20, is_quiet=False, now=at) == at


class TestJoinAt:
    def test_the_first_and_the_last_join_wait_for_nothing(self, now: datetime) -> None:
        assert join_at(segments=100, last=None, final=False, now=now) == now
        assert join_at(segments=100, last=now, final=True, now=now) == now

    def test_those_between_wait_the_longer_the_longer_the_movie(self, now: datetime) -> None:
        assert join_at(segments=100, last=now, final=False, now=now) == now + timedelta(seconds=100)
