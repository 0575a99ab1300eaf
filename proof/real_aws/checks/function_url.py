"""Check of the public function URL of the webhook ingress."""

import hmac
import json
import os
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from hashlib import sha256
from urllib.parse import urlsplit

from proof.real_aws.app import HOOK
from proof.real_aws.checks.check import Check, Seen, failed, verdict, waiting
from proof.real_aws.target import Target

_HTTP_SECONDS = 30
_NO_SECRET = 503
"""Answer while the endpoint's secret has no value: the provider sends again."""


def _function_url(target: Target) -> Iterator[Seen]:
    ingress = target.parts.webhooks
    assert ingress is not None  # noqa: S101, the app has one
    webhook = {"id": target.id("hook"), "type": "hook.sent", "counter": target.id("hook")}
    body, url = json.dumps(webhook).encode(), f"{ingress.url}{HOOK.name}"
    early = post(url, signed(body, "no secret is stored"), body)
    secret = f"whsec_{secrets.token_hex(16)}"
    target.client("secretsmanager").put_secret_value(
        SecretId=ingress.secrets[HOOK.name], SecretString=secret
    )
    while (forged := post(url, signed(body, "another secret"), body)) == _NO_SECRET:
        yield waiting("the secret is not read yet")
    answers = [post(url, signed(body, secret), body) for _ in range(2)]
    if answers != [200, 200] or forged != 401 or early != _NO_SECRET:
        yield failed(
            f"answers to one webhook sent twice: {answers}; to a forged one: {forged}; before "
            f"a secret was stored: {early}"
        )
        return
    while target.amount("hook") < 1:
        yield waiting("the webhook is not counted yet")
    while left := target.messages_left("counter"):
        yield waiting(f"{left} messages left")
    amount = target.amount("hook")
    text = f"sent twice: {answers}, counted {amount} times; forged: {forged}"
    yield verdict(amount == 1, text)


def signed(body: bytes, secret: str) -> dict[str, str]:
    """Return the headers of a webhook that is signed at this moment, as Stripe signs."""
    at = int(time.time())
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    return {"content-type": "application/json", "stripe-signature": f"t={at},v1={digest}"}


def post(url: str, headers: Mapping[str, str], body: bytes) -> int:
    """Send a POST request without credentials, and return the status of its answer.

    An emulator answers at its endpoint for every host; the header Host names the one that is meant.

    Raises:
        OSError: there is no answer.
    """
    parts, endpoint = urlsplit(url), os.environ.get("AWS_ENDPOINT_URL")
    found = {**headers, "host": parts.netloc}
    target = url if endpoint is None else f"{endpoint}{parts.path}"
    request = urllib.request.Request(target, body, found, method="POST")  # noqa: S310
    trust = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE"))
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_SECONDS, context=trust) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


FUNCTION_URL = Check(
    "function-url",
    "the webhook address answers without credentials: a signed webhook counts once, a forged one "
    "is refused with 401, and one that comes before a secret is stored is answered with 503",
    300,
    _function_url,
    if_not="set http_api=True; if only the answer before the secret differs, store the secret "
    "before you give the address to the provider",
)
