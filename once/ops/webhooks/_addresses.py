"""Addresses of a host: resolved once and checked, so that no later answer of a name server counts.

A replay sends customers' data and a provider's signature. Without the check, a URL that somebody
else gave could reach the metadata service of this machine or a host of its private network.
"""

import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from once.ops.errors import OpsError

Address = IPv4Address | IPv6Address
Rule = Callable[[Address], bool]
"""Tells whether a request may be sent to an address."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses that a gateway translates to the IPv4 address in their last four bytes (RFC 6052)."""


def resolved(host: str, port: int, allowed: Rule, refusal: str) -> list[str]:
    """Return the addresses of a host.

    Args:
        host: a name or an address.
        port: the port.
        allowed: the rule that every address must meet, since an attacker may add one of many.
        refusal: the end of the error for an address that does not.

    Raises:
        OpsError: the host has no address, or one that is not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OpsError(f"the host {host!r} has no address ({error}): see to the URL") from None
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    for address in addresses:
        if not allowed(ip_address(address)):
            raise OpsError(f"{host!r} is {address}, {refusal}")
    return addresses


def is_public(address: Address) -> bool:
    """Tell whether an address belongs to a host of the public internet.

    False for private, shared, loopback, link-local, multicast, unspecified and reserved addresses,
    for an IPv4 address in the form of IPv6, and for one inside of which there is such an address.
    """
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address.is_site_local:
            return False
        if not all(map(is_public, _embedded(address))):
            return False
    special = (
        *(address.is_private, address.is_loopback, address.is_link_local, address.is_multicast),
        *(address.is_unspecified, address.is_reserved),
    )
    translated = isinstance(address, IPv6Address) and address in _NAT64
    return translated or (address.is_global and not any(special))


def is_loopback(address: Address) -> bool:
    """Tell whether an address is one of this machine alone."""
    return address.is_loopback


def is_any(_: Address) -> bool:
    """Allow every address."""
    return True


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses to which a packet for this one is sent in the end."""
    if address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
