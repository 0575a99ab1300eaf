"""The plan of webhooks, and its requests, which the library's own verification judges."""

import json
from collections import Counter
from random import Random
from urllib.parse import parse_qs

import pytest

from demo.scenarios.webhooks.deliveries import (
    Altered,
    Forged,
    Genuine,
    Handshake,
    HttpRequest,
    Provider,
    Trick,
)
from demo.scenarios.webhooks.webhook_plan import HOURS_BEFORE, WEBHOOKS, WebhookPlan
from once.webhooks.endpoint import PROFILES
from once.webhooks.signature import Verdict, verify
from once.webhooks.webhook import Request

NOW = 1_800_000_000.0
SECRETS = dict.fromkeys([*Provider, "slack"], "whsec_c2VjcmV0LW9mLXRoZS1kZW1v")


@pytest.fixture(scope="module")
def plan() -> WebhookPlan:
    return WebhookPlan.draw(Random(1))


def verdict(request: HttpRequest) -> Verdict:
    profile = PROFILES[request.path.removeprefix("/")]
    read = Request("POST", request.path, request.headers, request.body)
    return verify(profile, [SECRETS[profile.name]], read, NOW)


def test_the_library_accepts_genuine_requests_and_refuses_every_trick(plan: WebhookPlan) -> None:
    verdicts = Counter(
        (type(each), getattr(each, "trick", None), verdict(each.request(SECRETS, NOW)))
        for wave in plan.waves
        for each in wave
    )
    genuine = {key for key in verdicts if key[2] is Verdict.GENUINE}
    assert genuine == {(kind, None, Verdict.GENUINE) for kind in (Genuine, Altered, Handshake)}
    assert {trick for kind, trick, _ in verdicts if kind is Forged} == {*Trick}
    stale = {trick for _, trick, found in verdicts if found is Verdict.STALE}
    assert stale == {Trick.TOO_OLD, Trick.IN_FUTURE}


def test_a_share_of_the_webhooks_comes_again_on_later_days(plan: WebhookPlan) -> None:
    attempts = [(n, each) for n, wave in enumerate(plan.waves) for each in wave]
    again = {(n, e.webhook.serial) for n, e in attempts if isinstance(e, Genuine) and e.number}
    assert len({serial for _, serial in again}) == plan.resent == WEBHOOKS * 0.4
    assert {n for n, _ in again} == {*range(len(HOURS_BEFORE))}
    assert len(plan.forged) == WEBHOOKS * 0.1
    assert {each.provider for each in plan.webhooks} == {*Provider}


def test_altered_copies_come_before_their_webhook(plan: WebhookPlan) -> None:
    order = [each for wave in plan.waves for each in wave]
    first: dict[str, int] = {}
    for n, each in enumerate(order):
        if isinstance(each, Genuine):
            first.setdefault(each.webhook.serial, n)
    assert all(order.index(each) < first[each.webhook.serial] for each in plan.altered)
    typed = {each.webhook.provider for each in plan.altered if each.type}
    assert typed == {Provider.GITHUB, Provider.SHOPIFY}
    assert {each.webhook.provider for each in plan.altered if not each.type} == {*Provider}


def test_shopify_sends_again_within_four_hours_only(plan: WebhookPlan) -> None:
    waves: dict[str, list[int]] = {}
    for n, wave in enumerate(plan.waves):
        for each in wave:
            if isinstance(each, Genuine) and not each.other_id:
                waves.setdefault(each.webhook.serial, []).append(n)
    longest: Counter[Provider] = Counter()
    for webhook in plan.webhooks:
        first, last = min(waves[webhook.serial]), max(waves[webhook.serial])
        hours = sum(HOURS_BEFORE[first + 1 : last + 1])
        longest[webhook.provider] = max(longest[webhook.provider], hours)
    assert longest == dict.fromkeys(Provider, sum(HOURS_BEFORE)) | {Provider.SHOPIFY: 4}


def test_a_changed_or_reserialized_body_differs_from_every_genuine_one(plan: WebhookPlan) -> None:
    genuine = {
        each.request(SECRETS, NOW).body
        for wave in plan.waves
        for each in wave
        if isinstance(each, Genuine)
    }
    assert not genuine & {each.request(SECRETS, NOW).body for each in plan.forged}


def test_a_body_holds_the_data_that_the_audit_expects(plan: WebhookPlan) -> None:
    for each in plan.webhooks:
        text = each.body.decode()
        assert json.loads(parse_qs(text)["payload"][0] if each.is_form else text) == each.data
