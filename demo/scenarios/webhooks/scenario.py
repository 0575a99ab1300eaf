"""The scenario itself: sends the waves, waits until everything is processed, audits and reports."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from demo.audit.webhooks import MUST_BE_ZERO, ForgedRequest, SentWebhook, audit_webhooks
from demo.report import report_figures, step
from demo.scenarios import drawn_seed
from demo.scenarios.webhooks.app import RECEIPTS
from demo.scenarios.webhooks.deliveries import (
    HANDSHAKES,
    TYPES,
    Altered,
    Forged,
    Genuine,
    Handshake,
    Provider,
    SampleWebhook,
    WebhookPlan,
)
from demo.scenarios.webhooks.waves import Answered, WaveRun
from demo.shop import Shop, subscribers
from emulator.embedded_aws import EmbeddedAws

_CAPTURES, _TAP = "captures", "webhook-tap"
_REFUSED = 401
_DIED = (0, 500, 502)
"""The answers of the embedded AWS for a function whose process ended."""
_MINIMUM = {
    "functions_killed": 8,
    "killed_requests": 4,
    "handshakes": HANDSHAKES,
    "conflicts": 3,
}
_REPLAY = (
    *("webhooks", "replay", "--standing", "conflict", "--type", TYPES[Provider.GITHUB]),
    *("--since", "5d", "--to-queue", RECEIPTS.name, "--rate", "50", "--yes"),
)
"""An operator's answer to a conflict of types: the event of the type that the provider sent."""
_LABELS = {
    "sent": "requests sent",
    "distinct": "webhooks, of four providers",
    "resent": "of these sent again, on simulated days",
    "replayed": "sent again under another id that is not signed",
    "altered_sent": "copies with another type or content type, sent first",
    "conflicts": "GitHub's behind a copy of another type, replayed",
    "functions_killed": "function processes killed",
    "killed_requests": "requests that ended with their function",
    "refused_in_rotation": "refused for seconds after a rotation of secrets",
    "p50_ms": "time to the answer, p50, ms",
    "p99_ms": "time to the answer, p99, ms",
    "seconds": "seconds",
    "handshakes": "Slack's handshakes answered",
    "forged_sent": "forged and stale requests",
    "events": "events published",
    "lost": "lost",
    "doubled": "doubled",
    "forged_accepted": "forged ones accepted",
    "altered": "captures or events that differ from their webhook",
}


def webhooks(shop: Shop, deploy_seconds: float) -> bool:
    """Send webhooks of four providers under failures, and write `reports/webhooks.json`.

    Returns:
        Whether each became one event, no forged one was accepted, and enough faults occurred.
    """
    started = time.monotonic()
    ingress = shop.deployment.webhooks
    assert ingress is not None  # noqa: S101 - the app of this scenario has one
    tap = _subscribed_tap(shop.aws, shop.deployment.events_topic_arn, RECEIPTS.events)
    shop.shorten_visibility(RECEIPTS.name)
    seed = drawn_seed()
    plan = WebhookPlan.draw(Random(seed))
    function = f"{shop.deployment.service}-{ingress.identity}"
    turns = [each for other in shop.functions(RECEIPTS.name) for each in (function, other)]
    run = WaveRun(shop.aws, ingress, shop.deployment.dedup_table, turns, Random(seed))
    with step(f"sending {sum(map(len, plan.waves))} requests (seed {seed})"):
        run.send(plan.waves)
    shop.run("once.ops", *_REPLAY)
    evidence = shop.evidence()
    tables = {**evidence.tables, _CAPTURES: ingress.captures}
    evidence = replace(evidence, tables=tables, subscribers=subscribers([RECEIPTS]))
    shop.wait_until_processed(evidence, shop.queues(RECEIPTS.name))
    with step("auditing"):
        audited = audit_webhooks(
            sent_webhooks(plan.webhooks, run.answers),
            forged_requests(run.answers),
            captures=evidence.items(_CAPTURES),
            events=[json.loads(message["Body"]) for message in evidence.messages(tap)],
            applied=evidence.items(RECEIPTS.name),
        )
        figures = {
            **run_figures(run.answers),
            **audited,
            "resent": plan.resent,
            "replayed": plan.replayed,
            "altered_sent": len(plan.altered),
            "functions_killed": run.killed,
            "seconds": round(time.monotonic() - started + deploy_seconds, 1),
        }
    return report_figures(
        "webhooks",
        "Webhooks, from captures, events and the consumer's table",
        _LABELS,
        figures,
        MUST_BE_ZERO,
        good=f"Each of the {figures['distinct']} webhooks was captured, and was applied once.",
        bad="A webhook was lost or doubled, or a forged one was accepted.",
        minimum=_MINIMUM,
    )


def _subscribed_tap(aws: EmbeddedAws, topic_arn: str, event_types: Sequence[str]) -> str:
    """Return the URL of a new queue that receives every event of some types from a topic."""
    sqs = aws.client("sqs")
    url: str = sqs.create_queue(QueueName=_TAP)["QueueUrl"]
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn = answer["Attributes"]["QueueArn"]
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    wanted = json.dumps({"type": list(event_types)})
    attributes = {"RawMessageDelivery": "true", "FilterPolicy": wanted}
    aws.client("sns").subscribe(
        TopicArn=topic_arn, Protocol="sqs", Endpoint=arn, Attributes=attributes
    )
    return url


def sent_webhooks(
    webhooks: Sequence[SampleWebhook], answers: Iterable[Answered]
) -> dict[str, SentWebhook]:
    """Return what was sent of each genuine webhook, by its serial."""
    attempts: dict[str, list[Answered]] = {each.serial: [] for each in webhooks}
    data: dict[str, list[Any]] = {each.serial: [] for each in webhooks}
    types: dict[str, set[str]] = {each.serial: set() for each in webhooks}
    for answered in answers:
        delivery = answered.delivery
        if isinstance(delivery, Genuine):
            attempts[delivery.webhook.serial].append(answered)
            data[delivery.webhook.serial].append(delivery.sent.data)
        elif isinstance(delivery, Altered) and delivery.type:
            types[delivery.webhook.serial].add(delivery.type)
    return {
        each.serial: SentWebhook(
            endpoint=each.provider,
            type=TYPES[each.provider],
            event_type=_event_type(each.provider),
            bodies=[answered.body for answered in attempts[each.serial]],
            data=data[each.serial],
            amount=each.data["amount"],
            accepted=any(answered.is_settled for answered in attempts[each.serial]),
            other_types=sorted(types[each.serial]),
            may_conflict=each.provider is Provider.GITHUB,
        )
        for each in webhooks
    }


def forged_requests(answers: Iterable[Answered]) -> list[ForgedRequest]:
    """Return the forged requests, each once, with its last answer."""
    last = {id(each.delivery): each for each in answers}
    return [
        ForgedRequest(
            endpoint=forged.webhook.provider,
            event_type=_event_type(forged.webhook.provider),
            serial=forged.webhook.serial,
            body=answered.body,
            data=forged.sent.data,
            refused=answered.status == _REFUSED,
        )
        for answered in last.values()
        if isinstance(forged := answered.delivery, Forged)
    ]


def run_figures(answers: Sequence[Answered]) -> Mapping[str, float]:
    """Return the figures of the run itself, by their key in the report."""
    genuine = [each for each in answers if isinstance(each.delivery, Genuine)]
    seconds = sorted(each.seconds for each in genuine if each.is_settled)
    handshakes = [each for each in answers if isinstance(each.delivery, Handshake)]
    return {
        "sent": len(answers),
        "killed_requests": sum(each.status in _DIED for each in answers),
        "refused_in_rotation": sum(each.status == _REFUSED for each in genuine),
        "handshakes": sum(each.is_settled for each in handshakes),
        "p50_ms": _percentile(seconds, 0.50),
        "p99_ms": _percentile(seconds, 0.99),
    }


def _percentile(seconds: Sequence[float], share: float) -> float:
    return round(seconds[int(len(seconds) * share)] * 1000, 1) if seconds else 0.0


def _event_type(provider: Provider) -> str:
    return f"{provider}.{TYPES[provider]}"
