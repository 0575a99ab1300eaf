"""Webhooks: requests that are nearly genuine, and the signatures of their providers.

The signing here shares no code with `once.webhooks`, and its Ed25519 is another library. A request
is signed and then changed: what is signed in it has to be what the provider has signed.
"""

import base64
import hashlib
import hmac
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from once.names import Limits
from once.webhooks.endpoint import PROFILES, Endpoint, hmac_profile
from once.webhooks.signature import Verdict, sign, verify
from once.webhooks.webhook import Request, Webhook
from proof.fuzz.search import expect

Given = dict[str, Any]
"""A provider's name, headers, others that are not signed, by which a copy of the request differs,
the body in Latin-1, the seconds by which the clock is off, and the bytes that were signed."""

NOW, TOLERANCE = 1_800_000_000, 300
SECRETS = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
OWNER = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a seed for tests").digest())
PUBLIC_KEY = "whpk_" + base64.b64encode(OWNER.public_key().public_bytes_raw()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """How a provider signs; `before` is signed before the body. It signs neither type nor id."""

    signature: str
    prefix: str = ""
    before: str = ""
    time: str = ""
    id: str = ""
    type: str = ""
    base64: bool = False


_PROVIDERS = {
    "github": _Provider(
        signature="x-hub-signature-256",
        prefix="sha256=",
        id="x-github-delivery",
        type="x-github-event",
    ),
    "shopify": _Provider(
        signature="x-shopify-hmac-sha256",
        id="x-shopify-webhook-id",
        type="x-shopify-topic",
        base64=True,
    ),
    "slack": _Provider(
        signature="x-slack-signature",
        prefix="v0=",
        before="v0:{time}:",
        time="x-slack-request-timestamp",
    ),
    "standard": _Provider(
        signature="webhook-signature",
        prefix="v1,",
        before="{id}.{time}.",
        time="webhook-timestamp",
        base64=True,
    ),
    "stripe": _Provider(signature="stripe-signature", prefix="v1=", before="{time}."),
}
_KEYS = (*SECRETS, PUBLIC_KEY)
_GENERIC = hmac_profile(
    "acme", signature_header="x-acme", id="header:webhook-id", signed="{id}:{body}", retry_seconds=9
)
_JUNK = (
    *("", " ", "0", ",", "=", "v1", "v1,", "v1a,", "t=", "v1=", "sha256=", "v0=", "t=1,", "é"),
    *("{body}", "{id}", "{0}", "%s", "\ud800", "\x00", "A" * 44, "00" * 32, "9" * 5000, "١٨"),
    *("-1", "1e9", "v1=00," * 2000, "v1,AAAA " * 2000, "v1a," + "A" * 88, "whsec_", "=" * 9),
)
_BODIES = (
    *("{}", '{"id": "evt_1", "type": "paid"}', "é {id}", "\xff\xfe", "", "payload=%7B%7D", "[1]"),
    *(' \n{"a": "&payload={}&"}', '"a&payload={}&b="', '{"id":"evt_1","data":' + "[" * 20_000),
    *('{"a":' * 20_000 + "0" + "}" * 20_000, "payload=" + "[" * 20_000),
    "payload=" + "%7B%22a%22%3A" * 1100,
)
_CONTENT_TYPES = ("application/json", "application/x-www-form-urlencoded", "text/plain")
_TYPES = ("push", "orders/paid", "orders/create", "é", "e\u0301", "t" * 80)


def draw(rng: Random) -> Given:
    """Return a request that a provider signed by one secret or both, with up to three changes."""
    name = rng.choice(list(_PROVIDERS))
    provider = _PROVIDERS[name]
    headers = {"webhook-id": rng.choice(("msg_1", "{body}", "a.b"))}
    headers.update({provider.time: str(NOW)} if provider.time else {})
    headers.update(_unsigned(rng, provider))
    given: Given = {"provider": name, "headers": headers, "body": rng.choice(_BODIES), "off": 0}
    content = _content(given, str(NOW))
    secrets = rng.choice((SECRETS[:1], SECRETS[1:], SECRETS))
    texts = [_mac(name, secret, content) for secret in secrets]
    headers[provider.signature] = provider.prefix + texts[0]
    if name == "stripe":
        headers[provider.signature] = ",".join(
            [f"t={NOW}", *(f"v1={text}" for text in texts), "v0=00"]
        )
    elif name == "standard":
        owner = base64.b64encode(OWNER.sign(content)).decode()
        both = [*(f"v1,{text}" for text in texts), f"v1a,{owner}"]
        headers[provider.signature] = rng.choice((" ".join(both), both[0], both[-1]))
    given |= {"signed": content.decode("latin-1"), "signature": headers[provider.signature]}
    given["unsigned"] = _unsigned(rng, provider)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        given = _changed(rng, given) if given["headers"] else given
    return given


def _unsigned(rng: Random, provider: _Provider) -> dict[str, str]:
    drawn = {"content-type": rng.choice((*_CONTENT_TYPES, *_JUNK))}
    if provider.type:
        drawn[provider.type] = rng.choice(_TYPES)
        drawn[provider.id] = rng.choice(("1", "2", "x" * 600))
    return {name: text for name, text in drawn.items() if rng.randrange(5) < 4}


def _changed(rng: Random, given: Given) -> Given:
    """Return a request with one change: of a header, the body or the clock."""
    headers = dict(given["headers"])
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
        return given | {"body": rng.choice((given["body"] + " ", *_BODIES))}
    elif pick == 6:
        return given | {"off": rng.choice((0, 300, -300, 301, -301, 10**6, -(10**6)))}
    else:
        del headers[name]
    return given | {"headers": headers}


def check(given: Given) -> None:
    """Compare the verdict about a request with what was signed, and read what is genuine."""
    profile, provider = PROFILES[given["provider"]], _PROVIDERS[given["provider"]]
    request = Request("POST", "/a", given["headers"], given["body"].encode("latin-1"))
    verdict = verify(profile, _KEYS, request, NOW + given["off"])
    time = _time(given)
    is_signed = _content(given, time).decode("latin-1") == given["signed"]
    if verdict is not Verdict.FORGED:
        expect(is_signed, "what nobody signed is forged")
        is_late = time.isdigit() and abs(int(time) - NOW - given["off"]) > TOLERANCE
        expect((verdict is Verdict.STALE) == is_late, "a signed time is timely on both sides")
    elif is_signed:
        is_whole = given["headers"].get(provider.signature) == given["signature"]
        expect(not is_whole, "what is signed is not forged")
    copy = Request("POST", "/a", {**request.headers, **given["unsigned"]}, request.body)
    for trusts_id in (False, True):
        endpoint = Endpoint("a", profile, trusts_id=trusts_id)
        one, other = Webhook.of(endpoint, request), Webhook.of(endpoint, copy)
        own = one.identity("webhooks")
        expect(len(own.pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
        expect(one.data == other.data, "signed bytes are read in one way")
        names = [provider.type, provider.id if trusts_id else ""]
        is_one = _values(names, request.headers) == _values(names, copy.headers)
        expect((own == other.identity("webhooks")) == is_one, "a type is never a duplicate")
    webhook_id = request.headers.get("webhook-id", "")
    headers = sign(_GENERIC, SECRETS[0], request.body, webhook_id=webhook_id, now=NOW)
    signed = Request("POST", "/a", headers, request.body)
    forged = Request("POST", "/a", headers | {"webhook-id": f"{webhook_id}x"}, request.body)
    expect(verify(_GENERIC, _KEYS, signed, NOW) is Verdict.GENUINE, "what is signed is genuine")
    expect(verify(_GENERIC, _KEYS, forged, NOW) is Verdict.FORGED, "a signed id cannot be changed")


def _values(names: list[str], headers: Mapping[str, str]) -> list[str]:
    return [unicodedata.normalize("NFC", headers.get(name) or "") for name in names]


def _time(given: Given) -> str:
    """Return the time of a request as it was sent; empty if its provider signs none."""
    provider, headers = _PROVIDERS[given["provider"]], given["headers"]
    parts = headers.get(provider.signature, "").split(",") if given["provider"] == "stripe" else ()
    stamps = [part.strip()[2:] for part in parts if part.strip().startswith("t=")]
    return str(next(iter(stamps), headers.get(provider.time, "")))


def _content(given: Given, time: str) -> bytes:
    """Return the bytes of a request that its provider signs."""
    values: dict[str, str] = {"{time}": time, "{id}": given["headers"].get("webhook-id", "")}
    parts = re.split(r"(\{\w+\})", _PROVIDERS[given["provider"]].before)
    before = "".join(values.get(part, part) for part in parts)
    body: bytes = given["body"].encode("latin-1")
    return before.encode("utf-8", "replace") + body


def _mac(name: str, secret: str, content: bytes) -> str:
    """Return the HMAC of a content as a provider spells it."""
    key = base64.b64decode(secret[6:]) if name == "standard" else secret.encode()
    mac = hmac.digest(key, content, "sha256")
    return base64.b64encode(mac).decode() if _PROVIDERS[name].base64 else mac.hex()
