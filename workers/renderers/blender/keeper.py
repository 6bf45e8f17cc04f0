"""
Keep a renderer alive between tasks: start it, hand it one client's wish at a time, pass on its log, tell why it ended.

`keeper.py CLIENT -- COMMAND…` starts the keeper in the background and becomes a client that waits for the scene to be
loaded. COMMAND is the renderer; `{line}` in it becomes the number of the socket on which it speaks JSON lines:
it says "device", "loaded", "progress" (0 to 1), "status", and at last "rendered", or "failed" with a cause and a
sentence; it is asked {"render": "1-4,9"}. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - -I leaves it out

from workers.renderers.blender.log_watch import MEMORY_SENTENCE, LogWatch

SOCKET = "renderer.sock"
CLIENT = "client.py"
"""Where, in the session's folder, tasks find the client."""

LOADING_LOG = "loading.log"
LONGEST_LINE = 8192
WISH_S = 5.0
END_S = 2.0
QUIT_S = 5.0
SHELL_SIGNALS = 128
"""A shell that starts the renderer reports its end by signal n as 128 + n."""

OURS = re.compile(rb"(openjd|farmhand)_")
VAGUE_CAUSES = ("scene_error", "missing_output")
"""What the log may know better."""


class Renderer:
    """The renderer's process, its log and the line to it."""

    def __init__(self, command: list[str]) -> None:
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        self.process = subprocess.Popen(
            [part.replace("{line}", str(theirs.fileno())) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # so that all it starts can be killed with it
        )
        theirs.close()
        os.close(writing)
        os.set_blocking(reading, False)
        self.log = reading
        self.line = ours
        self.is_silent = False  # it has closed its log
        self._log_rest = self._line_rest = b""

    def log_lines(self) -> Iterator[bytes]:
        """Take what the log holds now: whole lines, or the beginning of one that does not end."""
        while chunk := self._read_log():
            *lines, self._log_rest = (self._log_rest + chunk).split(b"\n")
            yield from (line[:LONGEST_LINE] for line in lines)
            if len(self._log_rest) > LONGEST_LINE:
                yield self.last_words()

    def last_words(self) -> bytes:
        """Take the line that was begun and not ended."""
        words, self._log_rest = self._log_rest[:LONGEST_LINE], b""
        return words

    def _read_log(self) -> bytes:
        try:
            chunk = os.read(self.log, 65536)
        except BlockingIOError:
            return b""
        self.is_silent = not chunk
        return chunk

    def messages(self) -> list[dict[str, Any]] | None:
        """Take what it has said on the line; None once it has hung up."""
        try:
            chunk = self.line.recv(65536)
        except ConnectionError:
            return None
        if not chunk:
            return None
        *lines, self._line_rest = (self._line_rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def ask(self, frames: str) -> None:
        self.line.sendall(json.dumps({"render": frames}).encode() + b"\n")

    def hang_up(self) -> int:
        """Ask it to end, make it end, and return how it did."""
        self.line.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(QUIT_S)
        return self.kill()

    def kill(self) -> int:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def wait(self) -> int:
        """Wait a moment for the end it is coming to."""
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return self.kill()


class Keeper:
    """One renderer and the clients that come to it one after another."""

    def __init__(self, listener: socket.socket, renderer: Renderer, driver: int | None) -> None:
        self.listener = listener
        self.renderer = renderer
        self.driver = driver
        self.watch = LogWatch()
        self.client: socket.socket | None = None
        self.verb = ""
        self.is_loaded = False
        self.failure: tuple[str, str] | None = None  # why it is of no use any more
        self.device = ""
        self.unheard: deque[bytes] = deque(maxlen=1000)  # log lines while no client is there
        self.is_over = False
        self.selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until told to quit, or until the client of a running wish or the driver is gone."""
        self.selector.register(self.listener, selectors.EVENT_READ, self.welcome)
        self.selector.register(self.renderer.log, selectors.EVENT_READ, self.pass_log_on)
        self.selector.register(self.renderer.line, selectors.EVENT_READ, self.listen)
        if self.driver is not None:
            self.selector.register(self.driver, selectors.EVENT_READ, self.give_up)
        while not self.is_over:
            for key, _ in self.selector.select():
                if not self.is_over:
                    key.data()
        self.renderer.kill()

    def welcome(self) -> None:
        """Take the next client and its wish; others wait in the listener's queue meanwhile."""
        client, _ = self.listener.accept()
        client.settimeout(WISH_S)
        try:
            self.verb, _, frames = client.makefile("r").readline().strip().partition(" ")
        except OSError:
            return client.close()
        client.settimeout(None)
        self.client = client
        self.selector.unregister(self.listener)
        self.selector.register(client, selectors.EVENT_READ, self.give_up)
        while self.unheard and not self.is_over:
            self.tell(self.unheard.popleft())
        return self.grant(frames)

    def grant(self, frames: str) -> None:
        if self.verb == "quit":
            self.renderer.hang_up()
            self.finish()
            self.is_over = True
        elif self.failure is not None:
            self.fail(*self.failure)
        elif self.verb == "load" and self.is_loaded:
            self.finish_loading()
        elif self.verb == "frames" and self.is_loaded:
            self.watch.begin()
            self.tell_device()
            self.renderer.ask(frames)

    def listen(self) -> None:
        """Act on what the renderer says; its log up to there goes first."""
        messages = self.renderer.messages()
        self.pass_log_on()
        if messages is None:
            return self.bury()
        for message in messages:
            self.act_on(message)
        return None

    def act_on(self, message: dict[str, Any]) -> None:
        if "progress" in message:
            self.tell(b"openjd_progress: %.1f" % (100 * message["progress"]))
        if "status" in message:
            self.tell(b"openjd_status: " + message["status"].encode())
        if "device" in message:
            self.device = message["device"]
            if self.is_loaded:
                self.tell_device()
        if "loaded" in message:
            self.is_loaded = True
            self.finish_loading()
        if "rendered" in message:
            self.end_rendering()
        if "failed" in message:
            self.fail_as_told(**message["failed"])

    def finish_loading(self) -> None:
        if self.client is not None:
            self.tell_device()
            self.finish()

    def end_rendering(self) -> None:
        """Believe that a frame is done only if the log does not say otherwise."""
        if self.watch.cause is None:
            self.finish()
        else:
            self.fail(*self.watch.cause)

    def fail_as_told(self, cause: str, sentence: str) -> None:
        if self.watch.cause is not None and cause in VAGUE_CAUSES:
            cause, sentence = self.watch.cause
        if not self.is_loaded:
            self.failure = cause, sentence
        self.fail(cause, sentence)

    def bury(self) -> None:
        """The renderer has ended without being asked to: tell why, now and to whoever comes yet."""
        code = self.renderer.wait()
        self.selector.unregister(self.renderer.line)
        if not self.is_loaded and Path(LOADING_LOG).exists():
            for line in Path(LOADING_LOG).read_bytes().splitlines():
                self.pass_line_on(line)
        self.pass_log_on()
        self.pass_line_on(self.renderer.last_words())
        if self.failure is None:
            self.failure = self.obituary(code)
            self.fail(*self.failure)

    def obituary(self, code: int) -> tuple[str, str]:
        if self.watch.cause is not None:
            return self.watch.cause
        if code > SHELL_SIGNALS:
            code = SHELL_SIGNALS - code
        if code == -signal.SIGKILL:
            return "out_of_memory", f"Blender was killed, most likely for want of memory. {MEMORY_SENTENCE}"
        how = signal.strsignal(-code) if code < 0 else f"exit code {code}"
        words = self.watch.last[:200].rstrip(".") or "none"
        sentence = (
            f"Blender ended by itself ({how}; last words: {words}): try again, and if it ends at the same place, "
            "simplify what is named there."
        )
        return "renderer_crashed", sentence

    def pass_log_on(self) -> None:
        for line in self.renderer.log_lines():
            self.pass_line_on(line)
        if self.renderer.is_silent and self.renderer.log in self.selector.get_map():
            self.selector.unregister(self.renderer.log)

    def pass_line_on(self, line: bytes) -> None:
        """Hand a log line to the client, unable to pass for one of our own."""
        line = line.replace(b"\0", b"").rstrip(b"\r")
        self.watch.hear(line.decode(errors="replace"))
        self.tell(b"| " + line if OURS.match(line) else line)

    def tell_device(self) -> None:
        if self.device:
            self.tell(b"farmhand_device: " + self.device.encode())

    def tell(self, line: bytes) -> None:
        if self.client is None:
            self.unheard.append(line)
        else:
            self.send(line + b"\n")

    def send(self, data: bytes) -> None:
        try:
            if self.client is not None:
                self.client.sendall(data)
        except OSError:
            self.give_up()

    def fail(self, cause: str, sentence: str) -> None:
        """End the client's wish in failure. Without a client there is a failed load, told to the next that comes."""
        if self.client is not None:
            self.tell(b"farmhand_end: " + json.dumps({"cause": cause, "sentence": sentence}).encode())
            self.finish(code=1)

    def finish(self, code: int = 0) -> None:
        """Tell the client how its wish ended and let the next one in."""
        self.send(b"\0%d" % code)
        if self.client is not None and not self.is_over:
            self.selector.unregister(self.client)
            self.client.close()
            self.client = None
            self.selector.register(self.listener, selectors.EVENT_READ, self.welcome)

    def give_up(self) -> None:
        """The client was killed, which is how a task is stopped, or the driver is gone: nobody wants this renderer."""
        self.is_over = True


def main() -> NoReturn:
    client = sys.argv[1]
    command = sys.argv[sys.argv.index("--") + 1 :]
    if shutil.which(command[0]) is None:
        sentence = f"This worker has no program {command[0]}: tell the farm's operator."
        print("farmhand_end:", json.dumps({"cause": "renderer_crashed", "sentence": sentence}))
        sys.exit(1)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    listener.listen(1)
    driver = driver_of_this_session()
    Path(CLIENT).write_bytes(Path(client).read_bytes())
    if os.fork() == 0:
        detach()
        keep(listener, command, driver)
    os.execv(sys.executable, [sys.executable, "-I", "-S", client, "load"])


def driver_of_this_session() -> int | None:
    """Hold on to the process that runs the session's actions: each is a process session, led by a child of it."""
    try:
        status = Path(f"/proc/{os.getsid(0)}/stat").read_text()
        return os.pidfd_open(int(status.rpartition(")")[2].split()[1]))
    except (OSError, ValueError):
        return None  # an old kernel, or none of its own: the sandbox's end is then ours


def detach() -> None:
    """Leave the action that starts us: it ends when nobody holds its output any more."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


def keep(listener: socket.socket, command: list[str], driver: int | None) -> NoReturn:
    try:
        Keeper(listener, Renderer(command), driver).run()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
