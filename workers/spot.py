"""Notice that the cloud takes the machine back: EC2's instance metadata, asked every few seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import httpx

LOG = logging.getLogger("farmhand.spot")
EVERY_S = 5.0
TIMEOUT_S = 2.0
TOKEN_S = 21600
USUAL_NOTICE_S = 120.0


class SpotNotice(threading.Thread):
    """Polls until there is a notice, then says once how many seconds are left."""

    def __init__(
        self, url: str, *, warn: Callable[[float], None], ended: threading.Event, every_s: float = EVERY_S
    ) -> None:
        super().__init__(name="spot", daemon=True)
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False)
        self._warn = warn
        self._ended = ended
        self._every_s = every_s
        self._token = ""

    def run(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                left = self._ask()
            except (httpx.HTTPError, ValueError) as error:
                LOG.debug("no word from the metadata service: %s", error)
                continue
            if left is not None:
                LOG.warning("the cloud takes this machine back in %.0f s", left)
                self._warn(left)
                return

    def _ask(self) -> float | None:
        """Ask once; None while nothing is said (404)."""
        if not self._token:
            self._token = self._fetch_token()
        answer = self._http.get(
            "/latest/meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": self._token}
        )
        if answer.status_code == 401:
            self._token = ""
            return None
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return seconds_left(answer.json(), now=datetime.now(UTC))

    def _fetch_token(self) -> str:
        answer = self._http.put("/latest/api/token", headers={"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)})
        answer.raise_for_status()
        return answer.text.strip()


def seconds_left(notice: object, *, now: datetime) -> float:
    """
    Read a notice such as {"action": "terminate", "time": "2026-01-02T03:04:05Z"}.

    The machine's wall clock may be wrong, so the answer is never more than the usual two minutes, nor less than none.
    """
    if not isinstance(notice, dict):
        raise ValueError(f"no notice: {notice!r}")
    at = datetime.fromisoformat(str(notice["time"]).replace("Z", "+00:00")) if "time" in notice else None
    left = (at - now).total_seconds() if at is not None else USUAL_NOTICE_S
    return min(USUAL_NOTICE_S, max(0.0, left))
