"""The providers' own examples of signatures, and their packages."""

import base64
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.hmac import HMAC
from slack_sdk.signature import Clock, SignatureVerifier
from standardwebhooks import Webhook
from stripe import WebhookSignature

from once.webhooks.endpoint import GITHUB, SHOPIFY, SLACK, STANDARD, STRIPE, Profile
from once.webhooks.signature import sign
from tests.once.webhooks.signing import (
    BODY,
    FORGED,
    GENUINE,
    NOW,
    PUBLIC_KEY,
    SECRET,
    check,
    signed_by,
)


@dataclass
class Example:
    """A signature that a provider publishes."""

    profile: Profile
    secret: str
    body: bytes
    headers: dict[str, str]
    now: int = 0


STANDARD_HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
}
EXAMPLES = {
    # docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
    "github": Example(
        GITHUB,
        "It's a Secret to Everybody",
        b"Hello, World!",
        {
            "x-hub-signature-256": "sha256="
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        },
    ),
    # docs.slack.dev/authentication/verifying-requests-from-slack
    "slack": Example(
        SLACK,
        "8f742231b10e8888abcd99yyyzzz85a5",
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
        b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
        {
            "x-slack-request-timestamp": "1531420618",
            "x-slack-signature": "v0="
            "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        1531420618,
    ),
    # github.com/standard-webhooks/standard-webhooks, the tests of its libraries
    "standard": Example(
        STANDARD,
        SECRET,
        b'{"test": 2432232314}',
        {
            **STANDARD_HEADERS,
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        1614265330,
    ),
    # github.com/svix/svix-webhooks, test_asymmetric_key_signing; the specification shows it as well
    "standard-public": Example(
        STANDARD,
        PUBLIC_KEY,
        b'{"test": 2432232314}',
        {
            **STANDARD_HEADERS,
            "webhook-signature": "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJa"
            "A7AZdpXwVLPo3mNl8EM+m7TBAg==",
        },
        1614265330,
    ),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=[*EXAMPLES])
def test_the_example_of_a_provider_is_genuine(example: Example) -> None:
    verdict = partial(check, example.profile, now=example.now)
    assert verdict(example.headers, example.body, example.secret) is GENUINE
    assert verdict(example.headers, example.body + b" ", example.secret) is FORGED


@pytest.mark.parametrize("name", ["slack", "standard"])
def test_the_example_of_a_provider_is_signed_alike(name: str) -> None:
    found = EXAMPLES[name]
    webhook_id = found.headers.get("webhook-id", "")
    made = sign(found.profile, found.secret, found.body, webhook_id=webhook_id, now=found.now)
    assert made == found.headers


def test_the_package_of_stripe_agrees() -> None:
    header = WebhookSignature.generate_signature_header(BODY.decode(), SECRET, NOW)
    assert check(STRIPE, {"stripe-signature": header}) is GENUINE
    own = signed_by(STRIPE, SECRET, BODY)["stripe-signature"]
    assert WebhookSignature.verify_header(BODY, own, SECRET)


def test_the_package_of_slack_agrees() -> None:
    class Fixed(Clock):
        def now(self) -> float:
            return NOW

    package = SignatureVerifier(SECRET, Fixed())
    signature = package.generate_signature(timestamp=str(NOW), body=BODY)
    headers = {"x-slack-request-timestamp": str(NOW), "x-slack-signature": signature}
    assert check(SLACK, headers) is GENUINE
    assert package.is_valid_request(BODY, signed_by(SLACK, SECRET, BODY))


def test_the_package_of_standard_webhooks_agrees(time_machine: Any) -> None:
    time_machine.move_to(NOW)
    Webhook(SECRET).verify(BODY, signed_by(STANDARD, SECRET, BODY))


def test_another_hmac_agrees_on_shopify_which_publishes_no_example() -> None:
    mac = HMAC(SECRET.encode(), hashes.SHA256())
    mac.update(BODY)
    headers = {"x-shopify-hmac-sha256": base64.b64encode(mac.finalize()).decode()}
    assert check(SHOPIFY, headers) is GENUINE
