"""One attempt's log: lines in, numbered chunks out, head and tail kept when it grows beyond its limit."""

from __future__ import annotations

import threading
from collections import deque

from workers.protocol import LOG_LIMIT_BYTES

CHUNK_BYTES = 256 * 1024
LINE_BYTES = 8 * 1024
TAIL_BYTES = LOG_LIMIT_BYTES // 2
HEAD_BYTES = LOG_LIMIT_BYTES - TAIL_BYTES - CHUNK_BYTES  # room for the line that says what was left out


class AttemptLog:
    """
    Collects lines; `next_chunk` gives what is to be stored next and `stored` says that it was.

    Up to HEAD_BYTES lines are handed out as they come; after that only the last TAIL_BYTES are kept, and handed out
    when the log is closed.
    """

    def __init__(self) -> None:
        self.chunks_stored = 0
        self.turn = threading.Lock()  # whoever stores chunks holds it, so that none is counted twice
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._head_bytes = 0
        self._dropped_bytes = 0
        self._chunk: bytes | None = None

    def write(self, text: str) -> None:
        """Take one or more lines; whatever a program printed becomes valid UTF-8 without NUL."""
        for line in text.split("\n"):
            self._write_line(clean_line(line))

    def _write_line(self, line: bytes) -> None:
        with self._lock:
            if self._head_bytes + len(line) <= HEAD_BYTES and not self._tail:
                self._head_bytes += len(line)
                self._waiting.append(line)
                return
            self._tail.append(line)
            self._tail_bytes += len(line)
            while self._tail_bytes > TAIL_BYTES:
                gone = len(self._tail.popleft())
                self._tail_bytes -= gone
                self._dropped_bytes += gone

    @property
    def is_empty(self) -> bool:
        with self._lock:
            return not (self._waiting or self._tail or self._chunk)

    def close(self) -> None:
        """Let the kept tail go out too."""
        with self._lock:
            if self._dropped_bytes:
                self._waiting.append(f"[… {self._dropped_bytes} bytes of this log were left out …]\n".encode())
            self._waiting.extend(self._tail)
            self._tail.clear()
            self._tail_bytes = 0

    def next_chunk(self) -> bytes | None:
        """Give the chunk to store next, the same one until it was stored; None if there is nothing."""
        with self._lock:
            if self._chunk is None and self._waiting:
                self._chunk = self._cut_chunk()
            return self._chunk

    def _cut_chunk(self) -> bytes:
        lines, size = [], 0
        while self._waiting and size + len(self._waiting[0]) <= CHUNK_BYTES:
            lines.append(self._waiting.popleft())
            size += len(lines[-1])
        return b"".join(lines)

    def stored(self) -> None:
        """The chunk that `next_chunk` gave is in the store."""
        with self._lock:
            self._chunk = None
            self.chunks_stored += 1


def clean_line(line: str) -> bytes:
    """Make one line of whatever was printed: valid UTF-8, no NUL, no carriage return, at most LINE_BYTES long."""
    clean = line.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\r", "").encode("utf-8", errors="replace")
    if len(clean) > LINE_BYTES:
        clean = clean[:LINE_BYTES].decode("utf-8", errors="ignore").encode() + " […]".encode()
    return clean + b"\n"
