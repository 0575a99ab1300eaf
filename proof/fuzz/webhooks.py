"""Webhooks: requests that are nearly genuine, and the signatures of their providers.

The demo's signers share no code with `once.webhooks`, and the Ed25519 here is another library. A
request is signed and then changed: what is signed in it has to be what the provider has signed.
"""

import base64
import hashlib
import unicodedata
from collections.abc import Mapping
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demo.signers import SIGNERS, Signer
from once.names import Limits
from once.runtime.lambda_http import Request
from once.webhooks.endpoint import PROFILES, Endpoint
from once.webhooks.signature import Authenticity, verify
from once.webhooks.webhook import Webhook
from proof.fuzz.search import expect

Given = dict[str, Any]
"""A provider's name, headers, others that are not signed, by which a copy of the request differs,
the beginning of the names of Standard Webhooks' headers, the body in Latin-1, the seconds by which
the clock is off, and the bytes that were signed."""

NOW, TOLERANCE = 1_800_000_000, 300
SECRETS = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
OWNER = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a seed for tests").digest())
PUBLIC_KEY = "whpk_" + base64.b64encode(OWNER.public_key().public_bytes_raw()).decode()


_PROVIDERS = ("github", "shopify", "slack", "standard", "stripe")
_KEYS = (*SECRETS, PUBLIC_KEY)
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
    name = rng.choice(_PROVIDERS)
    signer, webhook_id = SIGNERS[name], rng.choice(("msg_1", "{body}", "a.b"))
    secrets = rng.choice((SECRETS[:1], SECRETS[1:], SECRETS))
    body = rng.choice(_BODIES)
    content = signer.content(body.encode("latin-1"), webhook_id, str(NOW))
    texts = [signer.mac(secret, content) for secret in secrets]
    signature = signer.prefix.replace("{time}", str(NOW)) + texts[0]
    if name == "stripe":
        signature = ",".join([f"t={NOW}", *(f"v1={text}" for text in texts), "v0=00"])
    elif name == "standard":
        owner = base64.b64encode(OWNER.sign(content)).decode()
        both = [*(f"v1,{text}" for text in texts), f"v1a,{owner}"]
        signature = rng.choice((" ".join(both), both[0], both[-1]))
    headers = {"webhook-id": webhook_id, signer.signature: signature}
    headers.update({signer.time: str(NOW)} if signer.time else {})
    given: Given = {
        "provider": name,
        "headers": {**headers, **_unsigned(rng, signer)},
        "body": body,
        "off": 0,
        "signed": content.decode("latin-1"),
        "signature": signature,
        "prefix": rng.choice(("webhook-", "svix-")),
        "unsigned": _unsigned(rng, signer),
    }
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        given = _changed(rng, given) if given["headers"] else given
    return given


def _unsigned(rng: Random, signer: Signer) -> dict[str, str]:
    drawn = {"content-type": rng.choice((*_CONTENT_TYPES, *_JUNK))}
    if signer.type:
        drawn[signer.type] = rng.choice(_TYPES)
        drawn[signer.id] = rng.choice(("1", "2", "x" * 600))
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
    profile, signer = PROFILES[given["provider"]], SIGNERS[given["provider"]]
    webhook_id = given["headers"].get("webhook-id", "")
    sent = {n.replace("webhook-", given["prefix"]): text for n, text in given["headers"].items()}
    request = Request("POST", "/a", sent, given["body"].encode("latin-1"))
    verdict = verify(profile, _KEYS, request, NOW + given["off"])
    time = _time(given)
    content = signer.content(request.body, webhook_id, time)
    is_signed = content.decode("latin-1") == given["signed"]
    if verdict is not Authenticity.FORGED:
        expect(is_signed, "what nobody signed is forged")
        is_one = given["provider"] != "standard" or "." not in webhook_id
        expect(is_one, "an id with a full stop, which could end elsewhere, is forged")
        is_late = time.isdigit() and abs(int(time) - NOW - given["off"]) > TOLERANCE
        expect((verdict is Authenticity.STALE) == is_late, "a signed time is timely on both sides")
    elif is_signed:
        is_whole = given["headers"].get(signer.signature) == given["signature"]
        # The package of Standard Webhooks signs text: its HMAC of any other body is refused.
        is_one = given["provider"] != "standard" or (
            _is_text(request.body) and "." not in webhook_id
        )
        expect(not (is_whole and is_one), "what is signed is not forged")
    copy = Request("POST", "/a", {**request.headers, **given["unsigned"]}, request.body)
    for trusts_id in (False, True):
        endpoint = Endpoint("a", profile, trusts_id=trusts_id)
        one, other = Webhook.of(endpoint, request), Webhook.of(endpoint, copy)
        own = one.identity("webhooks")
        expect(len(own.pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
        expect(one.data == other.data, "signed bytes are read in one way")
        names = [signer.type, signer.id if trusts_id else ""]
        is_one = _values(names, request.headers) == _values(names, copy.headers)
        expect((own == other.identity("webhooks")) == is_one, "a type is never a duplicate")


def _values(names: list[str], headers: Mapping[str, str]) -> list[str]:
    return [unicodedata.normalize("NFC", headers.get(name) or "") for name in names]


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _time(given: Given) -> str:
    """Return the time of a request as it was sent; empty if its provider signs none."""
    signer, headers = SIGNERS[given["provider"]], given["headers"]
    parts = headers.get(signer.signature, "").split(",") if given["provider"] == "stripe" else ()
    stamps = [part.strip()[2:] for part in parts if part.strip().startswith("t=")]
    return str(next(iter(stamps), headers.get(signer.time, "")))
