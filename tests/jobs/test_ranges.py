"""Why a range is refused, in a person's words."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openjd.model import IntRangeExpr

from farm.core.errors import Invalid
from farm.jobs.ranges import RangeTooLong, complaint, numbers_of
from tests.jobs.spaces import Written, ranges


class TestComplaint:
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "it is empty"),
            ("  ", "it is empty"),
            ("10-", "'10-' has no end"),
            ("1-5,10-", "'10-' has no end"),
            ("1-10:", "'1-10:' has no step after its colon"),
            ("a-b", "'a-b' is neither a whole number nor a range of them"),
            ("1..5", "'1..5' is neither a whole number nor a range of them"),
            ("1.5", "'1.5' is neither a whole number nor a range of them"),
            ("1-10x2", "'1-10x2' is neither a whole number nor a range of them"),
            ("1;2", "'1;2' is neither a whole number nor a range of them"),
            ("0x10", "'0x10' is neither a whole number nor a range of them"),
            ("５-７", "'５-７' has digits other than 0 to 9"),
            ("1,,3", "there is nothing before or after one of its commas"),
            ("1,", "there is nothing before or after one of its commas"),
            (",1", "there is nothing before or after one of its commas"),
            ("10-1", "10-1 runs backwards; its step must be negative, as in 10-1:-1"),
            ("10-1:2", "10-1:2 runs backwards; its step must be negative, as in 10-1:-1"),
            ("1-10:-1", "1-10:-1 runs forwards; its step must be positive"),
            ("1-10:0", "the step of 1-10:0 is zero"),
            ("1,1", "1 and 1 overlap; name each number once, the parts one after another"),
            ("5-15, 1-10", "1-10 and 5-15 overlap; name each number once, the parts one after another"),
        ],
    )
    def test_each_usual_slip_has_its_words(self, text: str, why: str) -> None:
        assert complaint(text) == why

    @given(ranges())
    def test_a_good_range_has_none(self, written: Written) -> None:
        assert complaint(written.text) == ""

    @given(st.text("0123456789-:, ab５", max_size=12))
    @example("- 9")
    @example("1 - - 3 : - 1")
    @example("1-5:9,2")  # only 1 and 2: the first part ends where its step does
    def test_whatever_openjd_model_refuses_is_explained_and_nothing_else(self, text: str) -> None:
        try:
            IntRangeExpr.from_str(text)
        except Exception:
            assert complaint(text)
        else:
            assert complaint(text) == ""


class TestNumbersOf:
    @given(ranges())
    def test_they_are_those_that_openjd_model_reads(self, written: Written) -> None:
        numbers = numbers_of(written.text, most=100_000, field="frames")

        assert sorted(numbers) == sorted(IntRangeExpr.from_str(written.text))

    def test_a_sign_may_stand_apart_from_its_number(self) -> None:
        assert numbers_of("3 - - 1 : - 2, - 5", most=10, field="frames") == [3, 1, -1, -5]

    def test_what_is_no_range_is_refused_by_its_field(self) -> None:
        with pytest.raises(Invalid, match="'10-' has no end; write a range as in") as raised:
            numbers_of("1-5,10-", most=10, field="frames")

        assert raised.value.field == "frames"

    def test_more_than_there_may_be_are_refused_before_they_are_counted_out(self) -> None:
        for last in (99_999_999_999_999, 10**30):
            with pytest.raises(RangeTooLong):
                numbers_of(f"1-{last}", most=10, field="frames")
