"""Addresses: what proxies forward is believed as far as the operator said there are proxies."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from django.test import Client, RequestFactory

from farm.core.addresses import address_of


def seen(forwarded: str | None = None, *, peer: str = "10.0.0.1") -> str | None:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return address_of(RequestFactory().get("/", headers=headers, REMOTE_ADDR=peer))


class TestAddressOf:
    def test_without_proxies_it_is_the_peer_s_whatever_is_forwarded(self) -> None:
        assert {seen(forwarded) for forwarded in (None, "", "192.0.2.7", "192.0.2.7, 192.0.2.8")} == {"10.0.0.1"}

    @pytest.mark.parametrize(
        ("proxies", "forwarded", "address"),
        [
            (1, "192.0.2.7", "192.0.2.7"),
            (1, "1.1.1.1, 192.0.2.7", "192.0.2.7"),
            (2, "192.0.2.7, 10.0.0.2", "192.0.2.7"),
            (2, "1.1.1.1,2.2.2.2, 192.0.2.7 ,10.0.0.2", "192.0.2.7"),
            (1, "2001:db8::1", "2001:db8::1"),
            (1, None, "10.0.0.1"),  # asked past the proxy, from within
            (2, "1.1.1.1", "10.0.0.1"),
            (1, "1.1.1.1, unknown", None),
        ],
    )
    def test_behind_own_proxies_it_is_whom_the_first_of_them_saw(
        self, settings: Any, proxies: int, forwarded: str | None, address: str | None
    ) -> None:
        settings.FARM_TRUSTED_PROXIES = proxies

        assert seen(forwarded) == address

    def test_an_address_in_another_s_clothes_is_itself(self) -> None:
        assert seen(peer="::ffff:192.0.2.7") == "192.0.2.7"

    @pytest.mark.parametrize("peer", ["", "unix:", "/run/farm.sock"])
    def test_behind_a_socket_without_an_address_there_is_none(self, peer: str) -> None:
        assert seen(peer=peer) is None


class TestTrustedProxies:
    """One setting decides whether anything that is forwarded is believed."""

    @pytest.fixture
    def load(self, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Any:
        def load(proxies: str) -> Client:
            monkeypatch.setenv("FARM_URL", "https://farm.example.com")
            monkeypatch.setenv("FARM_TRUSTED_PROXIES", proxies)
            read = runpy.run_path(str(settings.BASE_DIR / "farm/settings.py"))
            for name in ("FARM_TRUSTED_PROXIES", "SECURE_PROXY_SSL_HEADER", "SECURE_HSTS_SECONDS"):
                setattr(settings, name, read[name])
            return Client(headers={"X-Forwarded-Proto": "https"})

        return load

    def test_behind_one_that_ends_tls_browsers_are_told_to_keep_to_it(self, load: Any) -> None:
        answer = load("1").get("/api/v2")

        assert "max-age=31536000" in answer.headers["Strict-Transport-Security"]

    def test_without_one_a_forwarded_word_counts_for_nothing(self, load: Any) -> None:
        client = load("0")

        assert "Strict-Transport-Security" not in client.get("/api/v2").headers
        assert seen("192.0.2.7") == "10.0.0.1"
