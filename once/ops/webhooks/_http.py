"""HTTP requests to a destination whose addresses were checked; no redirect, no proxy.

A replay sends customers' data and a provider's signature. Without the check, a URL of an attacker
could reach the metadata service of this machine or a host of its private network. A name
is resolved once, so that no later answer of a name server counts.
"""

import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from operator import attrgetter
from time import monotonic
from typing import Self
from urllib.parse import SplitResult, urlsplit

from once.ops.errors import OpsError

TIMEOUT_SECONDS = 10.0
"""For the connection, and then for each part of the answer."""

Address = IPv4Address | IPv6Address
Rule = Callable[[Address], bool]
"""Tells whether a request may be sent to an address."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses that a gateway translates to the IPv4 address in their last four bytes (RFC 6052)."""

_PORTS = {"http": 80, "https": 443}
_OWN_HEADERS = {"host", "content-length", "connection", "transfer-encoding"}


def is_public(address: Address) -> bool:
    """Tell whether an address belongs to a host of the public internet.

    False for private, shared, loopback, link-local, multicast, unspecified and reserved addresses,
    for an IPv4 address in the form of IPv6, and for one inside of which there is such an address.
    """
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped is not None or address.is_site_local:
            return False
        receivers = filter(None, (address.sixtofour, *(address.teredo or ())))
        if not all(map(is_public, receivers)):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


is_loopback: Rule = attrgetter("is_loopback")
"""Tells whether an address is one of this machine alone."""


@dataclass(frozen=True)
class HttpDestination:
    """An address of HTTP.

    Attributes:
        host: the value of the header `Host`.
        name: the name that the certificate must have.
        addresses: the addresses to connect to, one after the other until one answers.
        ca_bundle: a file with the certificates to trust; None for those of this machine.
    """

    host: str
    name: str
    addresses: tuple[str, ...]
    port: int
    path: str
    secure: bool
    ca_bundle: str | None = None

    @classmethod
    def of(cls, url: str, option: str, allowed: Rule | None = None, refusal: str = "") -> Self:
        """Resolve a URL of an option, and check each of its addresses.

        Every one must meet the rule, if there is one, since an attacker may add one of many.
        `refusal` is the end of the error.
        """
        parts, port = _parts(url, option)
        host = parts.hostname or ""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise OpsError(f"the host {host!r} has no address ({error}): check the URL") from None
        addresses = tuple(dict.fromkeys(str(each[4][0]) for each in found))
        for address in addresses:
            if allowed is not None and not allowed(ip_address(address)):
                raise OpsError(f"{host!r} is {address}, {refusal}")
        is_secure = parts.scheme == "https"
        return cls(parts.netloc, host, addresses, port, _path(parts), is_secure)

    @classmethod
    def of_function(cls, url: str) -> Self:
        """Return the destination of a function's URL.

        The embedded AWS, which `AWS_ENDPOINT_URL` names, serves all functions at its own address
        and tells them by the header `Host`.
        """
        gateway, option = os.environ.get("AWS_ENDPOINT_URL"), "the output of the stack"
        if not gateway:
            return cls.of(url, option, is_public, "which is not public")
        parts, _ = _parts(url, option)
        found = cls.of(gateway, "AWS_ENDPOINT_URL")
        trusted = os.environ.get("AWS_CA_BUNDLE")
        return replace(found, host=parts.netloc, path=_path(parts), ca_bundle=trusted)


def _parts(url: str, option: str) -> tuple[SplitResult, int]:
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise OpsError(f"{option}: {url!r} is no URL: it has characters that a URL cannot have")
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise OpsError(f"{option}: {url!r} is no URL: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise OpsError(f"{option}: give a URL such as https://example.com/path, not {url!r}")
    if parts.username is not None or parts.password is not None:
        raise OpsError(f"{option}: leave the user and the password out of the URL")
    return parts, port


def _path(parts: SplitResult) -> str:
    return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"


class NotSent(Exception):
    """Nothing was sent: no connection was made."""


class Unsendable(NotSent):
    """A header or the method cannot be sent to any server."""


class NoResponse(Exception):
    """The request was sent, or a part of it, and there is no answer: perhaps it was processed."""


def send_request(
    destination: HttpDestination, method: str, headers: Mapping[str, str], body: bytes
) -> int:
    """Send a request, and return the status of its answer.

    `Host`, `Content-Length` and `Connection` are set here, and left out of the headers.

    Raises:
        NotSent, Unsendable: it was not sent.
        NoResponse: perhaps it was.
    """
    connection = HTTPConnection(destination.name, destination.port, timeout=TIMEOUT_SECONDS)
    connection.auto_open = 0  # the connection would be made to an address that was not checked
    try:
        connection.putrequest(method, destination.path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("host", destination.host)
        connection.putheader("content-length", str(len(body)))
        connection.putheader("connection", "close")
        for name, value in headers.items():
            if name.lower() not in _OWN_HEADERS:
                # Headers of HTTP are Latin-1, and UTF-8 by custom.
                is_latin = all(ord(character) < 256 for character in value)
                encoding = "latin-1" if is_latin else "utf-8"
                connection.putheader(name, value.encode(encoding, "surrogatepass"))
    except (ValueError, HTTPException) as error:
        raise Unsendable(f"the request cannot be sent as it is: {error}") from None
    connection.sock = _connected(destination)
    try:
        connection.endheaders(body)
        return connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise NoResponse(f"no answer: {type(error).__name__} {error}".strip()) from None
    finally:
        connection.close()


def _connected(destination: HttpDestination) -> socket.socket:
    """Return a connection to the first address that takes one."""
    fault = "no address"
    end = monotonic() + TIMEOUT_SECONDS
    for address in destination.addresses:
        left = end - monotonic()
        if left <= 0:
            break
        try:
            opened = socket.create_connection((address, destination.port), timeout=left)
            opened.settimeout(TIMEOUT_SECONDS)
            if not destination.secure:
                return opened
            trust = ssl.create_default_context(cafile=destination.ca_bundle)
            return trust.wrap_socket(opened, server_hostname=destination.name)
        except OSError as error:  # those of TLS as well, which closes the socket
            fault = f"{address}: {error}"
    raise NotSent(f"no connection to {destination.name}, port {destination.port}: {fault}")
