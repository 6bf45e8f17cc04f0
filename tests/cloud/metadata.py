"""EC2's instance metadata service, version 2, as far as the agent and the boot script ask it."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Metadata:
    """Tells what it is asked by whoever has a token; gives notice when the test says so."""

    def __init__(self) -> None:
        self.values = {"instance-id": "i-0123456789abcdef0", "instance-life-cycle": "on-demand"}
        self.notice: dict[str, str] | None = None
        self.only_first = False  # the notice is for the machine that asked for the first token, and no other
        self.tokens = 0
        self.expired = 0  # tokens up to this number are not taken any more
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def warn(self, seconds: float) -> None:
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        self.notice = {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def expire_tokens(self) -> None:
        self.expired = self.tokens

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def tell(self, path: str, token: int) -> tuple[int, str]:
        """Give the status and the text of an answer."""
        if not self.expired < token <= self.tokens:
            return 401, ""
        if path == "spot/instance-action":
            is_for_it = self.notice is not None and (token == 1 or not self.only_first)
            return (200, json.dumps(self.notice)) if is_for_it else (404, "")
        return (200, self.values[path]) if path in self.values else (404, "")


def _handler(metadata: Metadata) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            metadata.tokens += 1
            self._send(200, f"token-{metadata.tokens}")

        def do_GET(self) -> None:
            token = self.headers.get("X-aws-ec2-metadata-token", "").removeprefix("token-")
            path = self.path.removeprefix("/latest/meta-data/")
            self._send(*metadata.tell(path, int(token) if token.isdigit() else 0))

        def _send(self, status: int, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    return Handler
