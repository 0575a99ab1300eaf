"""Destination: where a request goes, checked before the first one is sent."""

import os
import ssl
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self
from urllib.parse import SplitResult, urlsplit

from once.ops.errors import OpsError
from once.ops.webhooks._addresses import Rule, is_any, is_public, resolved

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Destination:
    """An address of HTTP.

    Attributes:
        host: the value of the header `Host`.
        name: the name that the certificate must have.
        addresses: the addresses to connect to, one after the other until one answers.
        port: the port.
        path: the path with the query.
        secure: whether the connection is one of TLS.
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
    def of(cls, url: str, option: str, allowed: Rule, refusal: str) -> Self:
        """Resolve a URL, and check each of its addresses.

        Args:
            url: the URL.
            option: the option that gives it, for errors.
            allowed: the rule for its addresses.
            refusal: the end of the error for an address that is not allowed.

        Raises:
            OpsError: it is no URL of HTTP, or an address is not allowed.
        """
        parts, port = _parts(url, option)
        host = parts.hostname or ""
        return cls(
            host=parts.netloc,
            name=host,
            addresses=tuple(resolved(host, port, allowed, refusal)),
            port=port,
            path=_path(parts),
            secure=parts.scheme == "https",
        )

    @classmethod
    def of_function(cls, url: str) -> Self:
        """Return the destination of a function's URL.

        The embedded AWS, which `AWS_ENDPOINT_URL` names, serves all functions at its own address
        and tells them by the header `Host`.
        """
        gateway = os.environ.get("AWS_ENDPOINT_URL")
        if not gateway:
            return cls.of(url, "the output of the stack", is_public, "which is not public")
        parts, _ = _parts(url, "the output of the stack")
        found = cls.of(gateway, "AWS_ENDPOINT_URL", is_any, "")
        trusted = os.environ.get("AWS_CA_BUNDLE")
        return replace(found, host=parts.netloc, path=_path(parts), ca_bundle=trusted)

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The context of TLS, with the certificates to trust."""
        return ssl.create_default_context(cafile=self.ca_bundle)


def _parts(url: str, option: str) -> tuple[SplitResult, int]:
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise OpsError(f"{option}: {url!r} is no URL: it has characters that a URL cannot have")
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise OpsError(f"{option}: {url!r} is no URL: {error}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise OpsError(f"{option}: give a URL such as https://example.com/path, not {url!r}")
    if parts.username is not None or parts.password is not None:
        raise OpsError(f"{option}: leave the user and the password out of the URL")
    return parts, port


def _path(parts: SplitResult) -> str:
    return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
