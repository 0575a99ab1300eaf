"""Addresses that a replay may be sent to, and the connection to the one that was checked."""

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from once.ops.errors import OpsError
from once.ops.webhooks._http import (
    Destination,
    NotSent,
    Unsendable,
    is_loopback,
    is_public,
    send_request,
)
from tests.ops.webhooks.ingress import Receiver

PUBLIC = ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822")
OTHERS = (
    *("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *("100.64.0.1", "169.254.169.254", "fe80::1", "fd00:ec2::254", "224.0.0.1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:93.184.216.34", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::", "240.0.0.1", "255.255.255.255"),
    *("192.0.2.1", "198.18.0.1", "fec0::1", "64:ff9b:1::a00:1", "::127.0.0.1", "2001:0:a00:1::"),
)


def test_public_addresses_and_those_of_this_machine_are_told_apart() -> None:
    every = [*PUBLIC, *OTHERS]
    assert [each for each in every if is_public(ip_address(each))] == [*PUBLIC]
    here = [each for each in every if is_loopback(ip_address(each))]
    assert here == ["127.0.0.1", "127.9.9.9", "::1"]


def names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let the name server give these answers, one after the other; return the names asked for."""
    asked: list[str] = []

    def answer(host: str, port: int, **options: Any) -> Any:
        asked.append(host)
        addresses = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def destination(url: str) -> Destination:
    return Destination.of(url, "--to-url", is_public, "which is not public")


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://localhost/"),
        *("http://2130706433/", "http://0x7f000001/", "http://127.1/", "http://0/"),
        *("http://[fe80::1%25lo]/", "http://169.254.169.254/latest/meta-data/"),
    ],
)
def test_each_spelling_of_a_private_address_is_refused(url: str) -> None:
    with pytest.raises(OpsError, match=r"which is not public|has no address"):
        destination(url)


def test_a_name_is_refused_if_one_of_its_addresses_is_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names(monkeypatch, [PUBLIC[0], "10.0.0.1"])
    with pytest.raises(OpsError, match=r"'example\.com' is 10\.0\.0\.1, which is not public"):
        destination("https://example.com/")


def test_the_address_that_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = names(monkeypatch, [PUBLIC[0]], ["127.0.0.1"])
    tried: list[Any] = []

    def connect(address: Any, timeout: float) -> Any:
        tried.append(address)
        raise TimeoutError("no answer")

    monkeypatch.setattr(socket, "create_connection", connect)
    found = destination("http://example.com:8080/hook")
    with pytest.raises(NotSent, match=r"no connection to example\.com"):
        send_request(found, "POST", {}, b"")
    assert tried == [(PUBLIC[0], 8080)]
    assert asked == ["example.com"]


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.com/", "file:///etc/passwd", "example.com", "http:///x", "http://a b/"),
        *("http://user:pass@example.com/", "http://example.com:99999/", "http://x\r\ny/"),
        *("http://[::1", "http://ex\u202eample.com/"),
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(OpsError, match=r"--to-url"):
        destination(url)


def test_a_header_adds_no_line(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    found = Destination.of(server.url, "--to", is_loopback, "")
    with pytest.raises(Unsendable):
        send_request(found, "POST", {"x-a": "1\r\nx-b: 2"}, b"")
    assert server.requests == []
    headers = {"x-a": "\u20ac", "Host": "evil", "Content-Length": "9", "transfer-encoding": "x"}
    assert send_request(found, "POST", headers, b"body") == 200
    [request] = server.requests
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert (request.headers["content-length"], request.body) == ("4", b"body")
    assert "transfer-encoding" not in request.headers
