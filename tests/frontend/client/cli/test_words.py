"""How numbers, times and names are said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from farmhand.cli import words


class TestPlain:
    def test_escape_sequences_and_turned_lines_are_taken_out(self) -> None:
        assert words.plain("a\x1b[31mb\u202ec\r\nd\te") == "a\ufffd[31mb\ufffdc\ufffd\nd\te"

    def test_words_of_any_language_stay(self) -> None:
        assert words.plain("Übung 日本 👩\u200d🌾") == "Übung 日本 👩\u200d🌾"


class TestAmounts:
    @pytest.mark.parametrize(
        ("micro", "said"),
        [
            (0, "0.00 USD"),
            (12_500_000, "12.50 USD"),
            (1_234_567_891, "1,234.57 USD"),
            (45_000, "0.045 USD"),
            (1_523, "0.0015 USD"),
            (3, "0.000003 USD"),
            (-45_000, "-0.045 USD"),
        ],
    )
    def test_small_ones_show_two_digits(self, micro: int, said: str) -> None:
        assert words.say_money(micro, "USD") == said

    def test_those_read_together_end_at_one_digit(self) -> None:
        assert words.amounts(580, 1_600, 2_000_000) == ["0.00058", "0.00160", "2.00000"]

    def test_a_column_is_exact(self) -> None:
        assert words.exact(1_523) == "0.001523"


class TestParseMoney:
    @pytest.mark.parametrize(("text", "micro"), [("12.50", 12_500_000), ("0", 0), (" 3 ", 3_000_000), ("0.000001", 1)])
    def test_amounts_are_read_exactly(self, text: str, micro: int) -> None:
        assert words.parse_money(text) == micro

    @pytest.mark.parametrize("text", ["", "a", "-1", "NaN", "Infinity", "0.0000001", "1,50"])
    def test_what_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="no amount"):
            words.parse_money(text)


class TestSaySeconds:
    @pytest.mark.parametrize(
        ("seconds", "said"),
        [
            (0, "0.0 s"),
            (9.94, "9.9 s"),
            (59.4, "59 s"),
            (60, "1 min"),
            (85, "1 min 25 s"),
            (3600, "1 h"),
            (7261, "2 h 1 min"),
            (90_000, "1 d 1 h"),
        ],
    )
    def test_two_units_at_most(self, seconds: float, said: str) -> None:
        assert words.say_seconds(seconds) == said


class TestSayBytes:
    @pytest.mark.parametrize(
        ("count", "said"),
        [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (240_000_000, "240 MB"), (3 * 10**12, "3.0 TB")],
    )
    def test_sizes_are_short(self, count: int, said: str) -> None:
        assert words.say_bytes(count) == said


class TestSayRate:
    @pytest.mark.parametrize(("fps", "said"), [("24/1", "24"), ("24000/1001", "23.976"), ("25/2", "12.5")])
    def test_fractions_are_numbers(self, fps: str, said: str) -> None:
        assert words.say_rate(fps) == said


class TestParseMoment:
    NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

    def test_from_now_on(self) -> None:
        assert words.parse_moment("+90m", now=self.NOW) == self.NOW + timedelta(minutes=90)

    def test_a_moment_with_its_zone(self) -> None:
        assert words.parse_moment("2026-12-01T18:00+01:00", now=self.NOW) == datetime(2026, 12, 1, 17, tzinfo=UTC)

    def test_a_moment_without_is_in_this_machines(self) -> None:
        found = words.parse_moment("2026-12-01T18:00", now=self.NOW)

        assert found.tzinfo is not None
        assert found.replace(tzinfo=None) == datetime(2026, 12, 1, 18)  # noqa: DTZ001  (as it was written)

    @pytest.mark.parametrize("text", ["tomorrow", "+", "+2", "+xh", ""])
    def test_what_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="no moment"):
            words.parse_moment(text, now=self.NOW)
