"""Captures of every released version: they are kept for weeks, and their keys never change."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from once.commit.committer import CommitRequest, Committer
from once.commit.result import COMMITTED, CommitResult, failed
from once.errors import KeyConflict
from once.events.outgoing import ClaimPlace
from once.names import COMMIT_ATTRIBUTE, SCHEMA_VERSION, Record
from once.runtime.deadline import Deadline
from once.runtime.lambda_http import Request
from once.settings import TableSettings
from once.webhooks.captured_webhook import Capture, CaptureAttribute, CaptureStanding, Verified
from once.webhooks.endpoint import (
    CAPTURES,
    GITHUB,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    Endpoint,
    Profile,
    WebhookSettings,
)
from once.webhooks.ingress import CaptureCommitter
from once.webhooks.webhook import Webhook, rebuilt_event
from tests.golden.versions import Item, golden, names

RECEIVED_AT = 1_800_000_000_500
ACME = Profile(
    name="acme", signature_header="x-acme-signature", type=("body:kind",), retry_seconds=1
)


@dataclass(frozen=True, slots=True)
class Case:
    """A webhook, and whether its key belongs to an earlier webhook that differs."""

    endpoint: Endpoint
    headers: Mapping[str, str]
    body: bytes
    conflicts: bool = False
    verified: Verified = field(default=Verified.CURRENT)


STRIPE_ENDPOINT = Endpoint("stripe", STRIPE, types=("charge.refunded",))
GITHUB_ENDPOINT = Endpoint("github-main", GITHUB, types=("push",), prefix="code")
REFUND = '{"id": "evt_1", "type": "charge.refunded", "amount": 19.99, "note": "café"}'.encode()
PUSHED = {"x-github-event": "push", "x-github-delivery": "d-1", "x-github-hook-id": "7"}

MADE: dict[str, Case] = {
    "stripe": Case(STRIPE_ENDPOINT, {"stripe-signature": "t=1,v1=a", "cookie": "c"}, REFUND),
    "stripe, with other content under its id": Case(STRIPE_ENDPOINT, {}, REFUND, conflicts=True),
    "stripe, of a type that is captured only": Case(
        STRIPE_ENDPOINT, {}, b'{"id": "evt_2", "type": "payout.paid"}', verified=Verified.PREVIOUS
    ),
    "stripe, too deep for an event": Case(
        STRIPE_ENDPOINT, {}, REFUND.replace(b"19.99", b"[" * 63 + b"]" * 63)
    ),
    "github": Case(GITHUB_ENDPOINT, PUSHED, b'{"ref": "main"}'),
    "github, with another type for its bytes": Case(
        GITHUB_ENDPOINT, PUSHED | {"x-github-event": "ping"}, b'{"ref": "main"}', conflicts=True
    ),
    "github, not JSON": Case(GITHUB_ENDPOINT, PUSHED, b"\xff"),
    "github, in S3": Case(GITHUB_ENDPOINT, PUSHED, b'{"ref": "%s"}' % (b"x" * 262_144)),
    "github, with an id to trust": Case(
        Endpoint("github", GITHUB, types=("push",), trusts_id=True), PUSHED, b'{"ref": "main"}'
    ),
    "shopify": Case(
        Endpoint("shop", SHOPIFY, types=("orders/paid",)),
        {"x-shopify-topic": "orders/paid", "x-shopify-webhook-id": "w-1"},
        b'{"id": 7}',
    ),
    "slack": Case(
        Endpoint("slack", SLACK, types=("app_mention",)),
        {"x-slack-request-timestamp": "1", "x-slack-retry-num": "1"},
        b'{"event_id": "Ev1", "event": {"type": "app_mention"}, "type": "event_callback"}',
    ),
    "standard": Case(
        Endpoint("standard", STANDARD, types=("user.created",)),
        {"webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,a"},
        b'{"type": "user.created"}',
    ),
    "a provider without ids": Case(
        Endpoint("acme", ACME, types=("paid",)), {}, b'{"kind": "paid", "n": 1.50}'
    ),
}


def settings_of(endpoint: Endpoint) -> WebhookSettings:
    return WebhookSettings(
        consumer="webhooks",
        dedup_table="dedup",
        tables={CAPTURES: TableSettings(CAPTURES, (CaptureAttribute.PK,))},
        dedup_window_seconds=86_400,
        publishes=endpoint.event_types,
        max_body_bytes=4 * 1024 * 1024,
        claim_bucket="claims",
        endpoints=(endpoint,),
        secrets={endpoint.name: "arn"},
        capture_seconds=86_400,
    )


def new_case(name: str) -> Item:
    """Return the golden case of a webhook, as today's code captures it."""
    case, sent = MADE[name], []

    def commit(request: CommitRequest, _: Deadline) -> CommitResult:
        sent.append(request)
        is_first = case.conflicts and len(sent) == 1
        return failed(KeyConflict("golden")) if is_first else COMMITTED

    request = Request("POST", f"/{case.endpoint.name}?a=1", case.headers, case.body)
    settings = settings_of(case.endpoint)
    ports: Any = SimpleNamespace(
        request=Committer(Mock(), settings, Mock()).request,
        commit_alone=commit,
        look_up=lambda _: [None],
        put_object=lambda **_: None,
    )
    committer = CaptureCommitter(ports, settings, ports)
    webhook, deadline = Webhook.of(case.endpoint, request), Deadline(lambda: 0, 0)
    committer.commit(webhook, case.verified, RECEIVED_AT, deadline)
    record, item = (json.loads(bytes(entry))["Put"]["Item"] for entry in sent[-1].entries)
    return {
        "key": record[Record.PK]["S"],
        "fingerprint": record[Record.FINGERPRINT]["S"],
        "item": item | {COMMIT_ATTRIBUTE: {"S": "c"}},
        "events": json.loads(record.get(Record.OUTBOX, {"S": "[]"})["S"]),
    }


def plain(item: Item) -> Item:
    """Return an item in plain Python values, as boto3's resources return it."""
    kinds: dict[str, Callable[[str], Any]] = {"S": str, "N": int, "B": base64.b64decode}
    return {name: kinds[kind](v) for name, value in item.items() for kind, v in value.items()}


LATER: Item = {"of_a_later_version": {"S": "x"}}
PLACE = ClaimPlace("claims", "webhooks", 4 * 1024 * 1024)


def read_today(item: Item) -> Item:
    """Read a capture with today's code, as JSON."""
    read = asdict(Capture.read(plain(item)))
    return {**read, "body": None if read["body"] is None else item["body"]["B"]}


def test_every_webhook_has_a_case() -> None:
    assert golden(SCHEMA_VERSION, "captures").keys() == MADE.keys(), "run `python -m tests.golden`"


@pytest.mark.parametrize("name", MADE)
def test_a_webhook_has_the_key_and_the_capture_of_its_schema_version(name: str) -> None:
    assert new_case(name) == golden(SCHEMA_VERSION, "captures")[name], (
        "A webhook that was captured before would be new under another key, and captures live for "
        "weeks: let Capture.read understand both forms. Before a release, delete the file and run "
        "`python -m tests.golden`."
    )


@pytest.mark.parametrize(("version", "name"), names("captures"))
def test_todays_code_reads_the_captures_of_every_version(version: int, name: str) -> None:
    kept = golden(version, "captures")[name]["item"]
    read, stored = read_today(kept | LATER), plain(kept)
    expected = stored | {"headers": json.loads(stored["headers"])}
    expected |= {"body": kept["body"]["B"]} if "body" in kept else {}
    assert {each: expected.get(each) or None for each in read} == {
        each: value or None for each, value in read.items()
    }


@pytest.mark.parametrize(("version", "name"), names("captures"))
def test_the_events_of_captures_are_rebuilt(version: int, name: str) -> None:
    case = golden(version, "captures")[name]
    capture = Capture.read(plain(case["item"]))
    if capture.standing is not CaptureStanding.HANDED_ON:
        return
    made = MADE[name]
    event, _ = rebuilt_event(capture, made.body, made.endpoint, claims=PLACE)
    assert [json.loads(event.body)] == case["events"]
