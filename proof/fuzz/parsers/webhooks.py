"""Webhooks: signatures (`once.webhooks.signature`) and identity of what is genuine."""

from random import Random

from once.names import Limits
from once.webhooks.endpoint import PROFILES, Endpoint, hmac_profile
from once.webhooks.signature import Verdict, sign, verify
from once.webhooks.webhook import Request, Webhook
from proof.fuzz import webhooks
from proof.fuzz.target import expect
from proof.fuzz.webhooks import NOW, PUBLIC_KEY, SECRETS, SIGNATURE_HEADER

_KEYS = (*SECRETS, PUBLIC_KEY)
_GENERIC = hmac_profile(
    "acme", signature_header="x-acme", id="header:webhook-id", signed="{id}:{body}", retry_seconds=9
)


def draw(rng: Random) -> webhooks.Request:
    """Return a request that a provider signed, with up to three changes."""
    request = webhooks.signed(rng, rng.choice(sorted(SIGNATURE_HEADER)))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        if request["headers"]:
            request = webhooks.changed(rng, request)
    return request


def check(given: webhooks.Request) -> None:
    """Compare the verdict about a request with the reference, and read what is genuine."""
    profile = PROFILES[given["provider"]]
    request = Request("POST", "/a", given["headers"], given["body"].encode("latin-1"))
    verdict = verify(profile, _KEYS, request, NOW + given["off"])
    if verdict is not Verdict.FORGED:
        expect(webhooks.is_signed(given, strictly=False), "what nobody signed is forged")
        timely = webhooks.is_timely(given)
        expect((verdict is Verdict.GENUINE) == timely, "a signed time is timely on both sides")
    elif given["provider"] != "standard":
        expect(not webhooks.is_signed(given, strictly=True), "what is signed is not forged")
    copy = Request("POST", "/a", {**request.headers, **given["unsigned"]}, request.body)
    for trusts_id in (False, True):
        endpoint = Endpoint("a", profile, trusts_id=trusts_id)
        one, other = Webhook.of(endpoint, request), Webhook.of(endpoint, copy)
        own = one.identity("webhooks")
        expect(len(own.pk.encode()) <= Limits.PARTITION_KEY_BYTES, "a key fits into the table")
        expect(one.data == other.data, "signed bytes are read in one way")
        is_one = webhooks.is_one_webhook(given, trusts_id=trusts_id)
        expect((own == other.identity("webhooks")) == is_one, "a type is never a duplicate")
    _check_generic(request)


def _check_generic(request: Request) -> None:
    """Sign a body under any id, and verify it as it is and under another id."""
    webhook_id = request.headers.get("webhook-id", "")
    headers = sign(_GENERIC, SECRETS[0], request.body, webhook_id=webhook_id, now=NOW)
    own = Request("POST", "/a", headers, request.body)
    other = Request("POST", "/a", headers | {"webhook-id": f"{webhook_id}x"}, request.body)
    expect(verify(_GENERIC, _KEYS, own, NOW) is Verdict.GENUINE, "what is signed is genuine")
    expect(verify(_GENERIC, _KEYS, other, NOW) is Verdict.FORGED, "a signed id cannot be changed")
