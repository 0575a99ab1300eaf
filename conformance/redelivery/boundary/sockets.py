"""Connections past the boundary: refused, so that no run reaches a real service."""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from redelivery.boundary.threads import current


class ConnectionRefused(BaseException):
    """The handler opens a connection that the kit does not intercept."""


@contextmanager
def refused() -> Iterator[None]:
    """Let the handler connect to this machine alone."""
    connect = socket.socket.connect

    def checked(own: socket.socket, address: Any) -> None:
        if current() is not None and own.family in {socket.AF_INET, socket.AF_INET6}:
            _check(own, address)
        connect(own, address)

    with patch.object(socket.socket, "connect", checked):
        yield


def _check(own: socket.socket, address: Any) -> None:
    host, port = address[:2]
    if host == "localhost" or _is_loopback(host):
        return
    own.close()
    raise ConnectionRefused(
        f"the handler connects to {host}:{port} by a library that is not intercepted. "
        "Use urllib3, requests, httpx or urllib.request, or declare the driver's method"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
