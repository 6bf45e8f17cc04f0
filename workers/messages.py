"""The message thread: pops this worker's own queue; any message means only "sync now"."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kombu import Connection, Consumer, Exchange, Message, Queue

from workers.farm_client import pauses

LOG = logging.getLogger("farmhand.messages")
TRANSPORT = {
    "ack_emulation": False,  # the pop is the acknowledgement: the broker user may do nothing else
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 0,
}
LOOK_S = 5.0


class Messages(threading.Thread):
    """Listens for ever; while the broker is away, only latency suffers."""

    def __init__(self, broker_url: str, queue: str, *, wake: Callable[[], None], ended: threading.Event) -> None:
        super().__init__(name="messages", daemon=True)
        self._broker_url = broker_url
        self._queue = Queue(queue, Exchange(""), routing_key=queue, no_declare=True)
        self._wake = wake
        self._ended = ended

    def run(self) -> None:
        waits = pauses(first=0.5)
        while not self._ended.is_set():
            try:
                self._listen()
                waits = pauses(first=0.5)
            except Exception as error:
                LOG.warning("the broker is away: %s", type(error).__name__)
                self._ended.wait(next(waits))

    def _listen(self) -> None:
        with Connection(self._broker_url, transport_options=TRANSPORT) as connection:
            connection.connect()
            channel = connection.default_channel
            with Consumer(channel, [self._queue], callbacks=[self._hear], no_ack=True, accept=["json"]):
                self._wake()  # whatever was said while nobody listened is in the next answer
                while not self._ended.is_set():
                    try:
                        connection.drain_events(timeout=LOOK_S)
                    except TimeoutError:
                        continue

    def _hear(self, body: Any, message: Message) -> None:
        """What it says is not looked at: the farm's next answer is the truth."""
        self._wake()
