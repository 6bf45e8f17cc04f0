"""Logs that stay small while somebody appends to them."""

from pathlib import Path

from infra.local.logs import keep_small, last_lines


class TestKeepSmall:
    def test_a_full_log_is_emptied_and_its_writer_goes_on_at_the_start(self, tmp_path: Path) -> None:
        log = tmp_path / "web.log"
        with log.open("ab", buffering=0) as writer:
            writer.write(b"old\n" * 10)

            keep_small(tmp_path, limit=20)
            writer.write(b"new\n")

        assert log.read_bytes() == b"new\n"
        assert (tmp_path / "web.log.1").read_bytes() == b"old\n" * 10

    def test_only_the_last_few_are_kept(self, tmp_path: Path) -> None:
        log = tmp_path / "web.log"
        for number in range(6):
            log.write_text(f"{number} " * 20)
            keep_small(tmp_path, limit=20)

        assert sorted(path.name for path in tmp_path.iterdir()) == ["web.log", "web.log.1", "web.log.2", "web.log.3"]
        assert (tmp_path / "web.log.1").read_text().startswith("5")

    def test_a_small_one_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "web.log").write_text("short")

        keep_small(tmp_path, limit=20)

        assert [path.name for path in tmp_path.iterdir()] == ["web.log"]


class TestLastLines:
    def test_the_end_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "a.log").write_text("".join(f"{number}\n" for number in range(10_000)))

        assert last_lines(tmp_path / "a.log", 2) == "9998\n9999"

    def test_no_log_is_no_error(self, tmp_path: Path) -> None:
        assert last_lines(tmp_path / "none.log") == ""
