"""
Pass one wish to the renderer's keeper and print what it answers: `client.py "frames 1-4,9"`; its exit code is ours.

One is started for every task, so it imports nothing but the built-in parts of what it needs (`import socket` alone
would double its time). Being killed is how a task is stopped: the keeper sees the closed line and stops the renderer.
"""

import _socket
import sys
from posix import write

WISH = sys.argv[1]
GONE = b'farmhand_end: {"cause": "renderer_crashed", "sentence": "Blender had ended before this: try it again."}\n'
SOCKET = "renderer.sock"  # in the session's folder, where actions start; the full path may be too long for a socket


def main() -> int:
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.connect(SOCKET)
    except OSError:
        return gone()
    line.sendall(WISH.encode() + b"\n")
    while True:
        answer = line.recv(65536)
        text, end, code = answer.partition(b"\0")
        say(text)
        if end:
            return int(code or line.recv(8))
        if not answer:
            return gone()


def gone() -> int:
    if WISH == "quit":
        return 0  # ended already
    say(GONE)
    return 1


def say(text: bytes) -> None:
    while text:
        text = text[write(1, text) :]


sys.exit(main())
