"""HTTP requests to a checked destination: no redirect is followed, and no proxy is used."""

import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from time import monotonic

from once.ops.webhooks._destination import Destination

TIMEOUT_SECONDS = 10.0
"""For the connection, and then for each part of the answer."""

_OWN_HEADERS = {"host", "content-length", "connection", "transfer-encoding"}


class NotSent(Exception):
    """Nothing was sent: no connection was made."""


class Unsendable(NotSent):
    """A header or the method cannot be sent, whatever is tried."""


class Unanswered(Exception):
    """The request was sent, or a part of it, and there is no answer: perhaps it was processed."""


def send_request(
    destination: Destination, method: str, headers: Mapping[str, str], body: bytes
) -> int:
    """Send a request, and return the status of its answer.

    Args:
        destination: where it goes.
        method: the method.
        headers: its headers. `Host`, `Content-Length` and `Connection` are set here.
        body: the bytes of its body.

    Raises:
        NotSent, Unsendable: it was not sent.
        Unanswered: perhaps it was.
    """
    own = {name: value for name, value in headers.items() if name.lower() not in _OWN_HEADERS}
    connection = HTTPConnection(destination.name, destination.port, timeout=TIMEOUT_SECONDS)
    connection.auto_open = 0  # the connection would be made to an address that was not checked
    try:
        connection.putrequest(method, destination.path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("host", destination.host)
        connection.putheader("content-length", str(len(body)))
        connection.putheader("connection", "close")
        for name, value in own.items():
            connection.putheader(name, _encoded(value))
    except (ValueError, HTTPException) as error:
        raise Unsendable(f"the request cannot be sent as it is: {error}") from None
    connection.sock = _connected(destination)
    try:
        connection.endheaders(body)
        return connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise Unanswered(f"no answer: {type(error).__name__} {error}".strip()) from None
    finally:
        connection.close()


def _connected(destination: Destination) -> socket.socket:
    """Return a connection to the first address that takes one."""
    fault = "no address"
    end = monotonic() + TIMEOUT_SECONDS
    for address in destination.addresses:
        left = end - monotonic()
        if left <= 0:
            break
        try:
            return _secured(destination, _opened(address, destination.port, left))
        except OSError as error:  # those of TLS as well
            fault = f"{address}: {error}"
    raise NotSent(f"no connection to {destination.name}, port {destination.port}: {fault}")


def _opened(address: str, port: int, seconds: float) -> socket.socket:
    opened = socket.create_connection((address, port), timeout=seconds)
    opened.settimeout(TIMEOUT_SECONDS)
    return opened


def _secured(destination: Destination, opened: socket.socket) -> socket.socket:
    if not destination.secure:
        return opened
    try:
        return destination.tls.wrap_socket(opened, server_hostname=destination.name)
    except BaseException:
        opened.close()
        raise


def _encoded(value: str) -> bytes:
    """Return a header as bytes; those of HTTP are Latin-1, and UTF-8 by custom."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
