from __future__ import annotations

from workers.attempt_log import CHUNK_BYTES, LINE_BYTES, AttemptLog, clean_line
from workers.protocol import LOG_LIMIT_BYTES


def all_chunks(log: AttemptLog) -> list[bytes]:
    log.close()
    chunks = []
    while (chunk := log.next_chunk()) is not None:
        chunks.append(chunk)
        log.stored()
    return chunks


class TestCleanLine:
    def test_it_is_valid_text_without_nul_or_carriage_return(self) -> None:
        assert clean_line("a\0b\r\udcff") == b"a\xef\xbf\xbdb?\n"

    def test_a_long_line_is_cut_between_characters(self) -> None:
        line = clean_line("é" * LINE_BYTES)

        assert len(line) < LINE_BYTES + 10
        assert line.decode().endswith("é […]\n")


class TestAttemptLog:
    def test_a_chunk_is_given_until_it_is_stored(self) -> None:
        log = AttemptLog()
        log.write("one")

        first = log.next_chunk()
        log.write("two")

        assert log.next_chunk() == first == b"one\n"
        log.stored()
        assert log.next_chunk() == b"two\n"
        assert log.chunks_stored == 1

    def test_a_text_of_several_lines_is_several_lines(self) -> None:
        log = AttemptLog()

        log.write("one\ntwo")

        assert log.next_chunk() == b"one\ntwo\n"

    def test_no_chunk_is_larger_than_its_limit(self) -> None:
        log = AttemptLog()
        for _ in range(200):
            log.write("x" * 8000)

        chunks = all_chunks(log)

        assert max(map(len, chunks)) <= CHUNK_BYTES
        assert sum(map(len, chunks)) == 200 * 8001

    def test_beyond_the_limit_head_and_tail_are_kept_and_the_gap_is_named(self) -> None:
        log = AttemptLog()
        for number in range(4000):
            log.write(f"{number} " + "x" * 7990)

        text = b"".join(all_chunks(log)).decode()

        assert len(text.encode()) <= LOG_LIMIT_BYTES
        assert text.startswith("0 x")
        assert text.splitlines()[-1].startswith("3999 ")
        assert "bytes of this log were left out" in text

    def test_it_holds_no_more_in_memory_than_it_will_store(self) -> None:
        log = AttemptLog()
        for _ in range(4000):
            log.write("x" * 8000)
            while log.next_chunk():
                log.stored()

        assert log._tail_bytes <= LOG_LIMIT_BYTES // 2

    def test_it_is_empty_when_everything_is_stored(self) -> None:
        log = AttemptLog()
        assert log.is_empty

        log.write("x")

        assert not log.is_empty
        all_chunks(log)
        assert log.is_empty
