"""Reference implementation of the signatures of webhooks, and requests that are nearly genuine.

It shares no code with `once.webhooks`: HMAC is written out (RFC 2104), Ed25519 is another library.
"""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterator
from random import Random
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NOW = 1_800_000_000
TOLERANCE = 300
SECRETS = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
_SEED = hashlib.sha256(b"a seed for tests").digest()
OWNER = Ed25519PrivateKey.from_private_bytes(_SEED)
PUBLIC_KEY = "whpk_" + base64.b64encode(OWNER.public_key().public_bytes_raw()).decode()
SIGNATURE_HEADER = {
    "stripe": "stripe-signature",
    "github": "x-hub-signature-256",
    "shopify": "x-shopify-hmac-sha256",
    "slack": "x-slack-signature",
    "standard": "webhook-signature",
}
ID_HEADER = {"github": "x-github-delivery", "shopify": "x-shopify-webhook-id"}
TYPE_HEADER = {"github": "x-github-event", "shopify": "x-shopify-topic"}
"""Headers that the provider does not sign, as it signs none of the content type."""
TIME_HEADER = {"slack": "x-slack-request-timestamp", "standard": "webhook-timestamp"}

_JUNK = (
    *("", " ", "0", ",", "=", "v1", "v1,", "v1a,", "t=", "v1=", "sha256=", "v0=", "t=1,", "é"),
    *("{body}", "{id}", "{0}", "%s", "\ud800", "\x00", "A" * 44, "00" * 32, "9" * 5000, "١٨"),
    *("-1", "1e9", "v1=00," * 2000, "v1,AAAA " * 2000, "v1a," + "A" * 88, "whsec_", "=" * 9),
)
_BODIES = (
    "{}",
    '{"id": "evt_1", "type": "paid"}',
    "é {id}",
    "\xff\xfe",
    "",
    "payload=%7B%7D",
    "[1]",
    ' \n{"a": "&payload={}&"}',
    '"a&payload={}&b="',
    '{"id":"evt_1","data":' + "[" * 20_000,
    '{"a":' * 20_000 + "0" + "}" * 20_000,
    "payload=" + "[" * 20_000,
    "payload=" + "%7B%22a%22%3A" * 1100,
)
_CONTENT_TYPES = ("application/json", "application/x-www-form-urlencoded", "text/plain")
_TYPES = ("push", "orders/paid", "orders/create", "é", "e\u0301", "t" * 80)

Request = dict[str, Any]
"""A provider's name, headers, others that are not signed, by which a copy of the request differs,
the body in Latin-1, and the seconds by which the clock is off."""


def signed(rng: Random, provider: str) -> Request:
    """Return a request of a provider, with each of the secrets or with both."""
    body, time = rng.choice(_BODIES), str(NOW)
    headers = {"webhook-id": rng.choice(("msg_1", "{body}", "a.b"))}
    headers.update({TIME_HEADER[provider]: time} if provider in TIME_HEADER else {})
    headers.update(_unsigned(rng, provider))
    request: Request = {"provider": provider, "headers": headers, "body": body, "off": 0}
    request["unsigned"] = _unsigned(rng, provider)
    secrets = rng.choice((SECRETS[:1], SECRETS[1:], SECRETS))
    macs = [_mac(provider, each, request, time) for each in secrets]
    headers[SIGNATURE_HEADER[provider]] = _written(rng, provider, macs, request)
    return request


def changed(rng: Random, request: Request) -> Request:
    """Return a request with one change: of a header, the body, the provider or the clock."""
    headers = dict(request["headers"])
    name = rng.choice(sorted(headers))
    text = headers[name]
    at = rng.randint(0, len(text))
    pick = rng.randrange(8)
    if pick < 3:
        headers[name] = text[:at] + rng.choice(_JUNK) + text[at + rng.choice((0, 0, 1)) :]
    elif pick == 3:
        headers[name] = rng.choice((text.upper(), text[:at], text + text, f"{text},{text}"))
    elif pick == 4:
        headers[name] = rng.choice(_JUNK)
    elif pick == 5:
        return request | {"body": rng.choice((request["body"] + " ", *_BODIES))}
    elif pick == 6:
        return request | {"off": rng.choice((0, 300, -300, 301, -301, 10**6, -(10**6)))}
    else:
        del headers[name]
    return request | {"headers": headers}


def is_one_webhook(request: Request, *, trusts_id: bool) -> bool:
    """Return whether the copy of a request with the other headers is the same webhook."""
    copy = {**request["headers"], **request["unsigned"]}
    names = [TYPE_HEADER, ID_HEADER] if trusts_id else [TYPE_HEADER]
    headers = [each[request["provider"]] for each in names if request["provider"] in each]
    return all(_text(copy.get(name)) == _text(request["headers"].get(name)) for name in headers)


def _text(value: str | None) -> str:
    """Return a type or an id as it counts: in the form NFC, and empty if there is none."""
    return unicodedata.normalize("NFC", value or "")


def _unsigned(rng: Random, provider: str) -> dict[str, str]:
    drawn = {"content-type": rng.choice((*_CONTENT_TYPES, *_JUNK))}
    if provider in TYPE_HEADER:
        drawn[TYPE_HEADER[provider]] = rng.choice(_TYPES)
        drawn[ID_HEADER[provider]] = rng.choice(("1", "2", "x" * 600))
    return {name: text for name, text in drawn.items() if rng.random() < 0.8}


def is_signed(request: Request, *, strictly: bool) -> bool:
    """Return whether one of the secrets, or the owner of the public key, signed a request.

    Args:
        request: the request.
        strictly: whether a signature must be spelled as the provider does.
    """
    provider, header = request["provider"], _header(request)
    time, texts = _claims(provider, header, request)
    macs = [_mac(provider, each, request, time) for each in SECRETS]
    spelled = {_spelled(provider, mac) for mac in macs}
    if strictly:
        return len(texts) <= 16 and not spelled.isdisjoint(texts)
    loose = {_loose(provider, text) for text in texts}
    return not spelled.isdisjoint(loose) or _is_owners(request)


def is_timely(request: Request) -> bool:
    """Return whether the signed time is within the tolerance; True if none is signed."""
    if request["provider"] in ("github", "shopify"):
        return True
    time, _ = _claims(request["provider"], _header(request), request)
    is_number = 0 < len(time) < 12 and set(time) <= set("0123456789")
    return is_number and abs(int(time) - NOW - request["off"]) <= TOLERANCE


def _claims(provider: str, header: str, request: Request) -> tuple[str, list[str]]:
    """Return the time and the signatures of a header."""
    if provider == "stripe":
        parts = [part.strip() for part in header.split(",")]
        times = [part[2:] for part in parts if part.startswith("t=")]
        return (times or [""])[0], [part[3:] for part in parts if part.startswith("v1=")]
    time = request["headers"].get(TIME_HEADER.get(provider, ""), "")
    pattern = {"github": r"sha256=(.*)", "shopify": r"(.*)", "slack": r"v0=(.*)"}
    if provider in pattern:
        return time, re.findall(rf"\A{pattern[provider]}\Z", header, re.DOTALL)
    return time, [part[3:] for part in header.split(" ") if part[:3] == "v1,"]


def _header(request: Request) -> str:
    return str(request["headers"].get(SIGNATURE_HEADER[request["provider"]], ""))


def _content(provider: str, request: Request, time: str) -> bytes:
    before = {
        "stripe": f"{time}.",
        "slack": f"v0:{time}:",
        "standard": f"{request['headers'].get('webhook-id', '')}.{time}.",
    }
    body: bytes = request["body"].encode("latin-1")
    return before.get(provider, "").encode("utf-8", "replace") + body


def _mac(provider: str, secret: str, request: Request, time: str) -> bytes:
    key = base64.b64decode(secret[6:]) if provider == "standard" else secret.encode()
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in block) + _content(provider, request, time))
    return hashlib.sha256(bytes(b ^ 0x5C for b in block) + inner.digest()).digest()


def _spelled(provider: str, mac: bytes) -> str:
    return base64.b64encode(mac).decode() if provider in ("shopify", "standard") else mac.hex()


def _loose(provider: str, text: str) -> str:
    """Return a signature as the provider spells it, if the text can be read as one."""
    if provider in ("shopify", "standard"):
        return text
    return "".join(text.split()).lower()


def _is_owners(request: Request) -> bool:
    time = request["headers"].get("webhook-timestamp", "")
    return request["provider"] == "standard" and any(_owned(request, time))


def _owned(request: Request, time: str) -> Iterator[bool]:
    for part in _header(request).split(" "):
        try:
            signature = base64.b64decode(part.removeprefix("v1a,"), validate=True)
            OWNER.public_key().verify(signature, _content("standard", request, time))
        except (ValueError, InvalidSignature):
            continue
        yield part.startswith("v1a,")


def _written(rng: Random, provider: str, macs: list[bytes], request: Request) -> str:
    texts = [_spelled(provider, mac) for mac in macs]
    match provider:
        case "stripe":
            return ",".join([f"t={NOW}", *(f"v1={text}" for text in texts), "v0=00"])
        case "standard":
            owner = base64.b64encode(OWNER.sign(_content(provider, request, str(NOW)))).decode()
            both = [*(f"v1,{text}" for text in texts), f"v1a,{owner}"]
            return rng.choice((" ".join(both), both[0], both[-1]))
    return {"github": "sha256=", "slack": "v0="}.get(provider, "") + texts[0]
