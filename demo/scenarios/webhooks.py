"""Scenario `webhooks`: 1,000 webhooks of four providers, sent again over days, forged, killed.

In: a deployed shop with an ingress of five endpoints and a consumer. Out: `reports/webhooks.json`,
and whether each webhook was captured and became one event. Senders and audit share no code with the
library.

No run waits for days. Before each wave of requests, the stored records are moved back in time by
the hours that have passed for the providers: dedup records and captures are then as old as they
would be. Their times of commit, receipt and expiry change, and the day under which the index lists
a capture. The clock of the functions stays right.
"""

import base64
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from demo.audit.evidence import Item
from demo.audit.webhooks import MUST_BE_ZERO, ForgedRequest, SentWebhook, audit_webhooks
from demo.kills import kill_at_random
from demo.report import report_figures, step
from demo.rounds import send_rounds
from demo.scenarios import drawn_seed
from demo.scenarios.apps import RECEIPTS
from demo.scenarios.webhook_requests import (
    HANDSHAKES,
    HOURS_BEFORE,
    TYPES,
    Altered,
    Answered,
    Delivery,
    Forged,
    Genuine,
    Handshake,
    Provider,
    SampleWebhook,
    Sender,
    WebhookPlan,
)
from demo.shop import Shop, subscribers
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.clients import batches
from once.ops.aws.deployment import DeployedWebhooks

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

_ROTATED_WAVE = 1
_REQUESTS_A_KILL = 30
KILLS_PER_WAVE = 8
"""Requests are the clock of the kills, so that a fast machine has as many. A wave has over 300."""
_LAST_ROUNDS = 3
_ACTIONS = 100
_UNITS = {"committed_at": 1000, "received_at": 1000, "expires_at": 1}
"""The attributes that hold a time, with their parts of a second."""


def webhooks(shop: Shop, deploy_seconds: float) -> bool:
    """Send webhooks of four providers under failures, and write `reports/webhooks.json`.

    Returns:
        Whether each became one event, no forged one was accepted, and enough faults occurred.
    """
    started = time.monotonic()
    ingress = shop.deployment.webhooks
    assert ingress is not None  # noqa: S101 - the app of this scenario has one
    tap = _subscribed_tap(shop.aws, str(shop.deployment.events_topic_arn), RECEIPTS.events)
    shop.shorten_visibility(RECEIPTS.name)
    seed = drawn_seed()
    plan = WebhookPlan.draw(Random(seed))
    function = f"{shop.deployment.service}-{ingress.identity}"
    turns = [each for other in shop.functions(RECEIPTS.name) for each in (function, other)]
    tables = (shop.deployment.dedup_table, ingress.captures)
    with step(f"sending {sum(map(len, plan.waves))} requests or more (seed {seed})"):
        answers, killed = send_waves(shop.aws, ingress, tables, turns, plan.waves, Random(seed))
    shop.once(*_REPLAY)
    evidence = shop.evidence()
    evidence = replace(
        evidence,
        tables={**evidence.tables, _CAPTURES: ingress.captures},
        subscribers=subscribers([RECEIPTS]),
    )
    shop.wait_until_processed(evidence, shop.queues(RECEIPTS.name))
    with step("auditing"):
        audited = audit_webhooks(
            sent_webhooks(plan.webhooks, answers),
            forged_requests(answers),
            captures=evidence.items(_CAPTURES),
            events=[json.loads(message["Body"]) for message in evidence.messages(tap)],
            applied=evidence.items(RECEIPTS.name),
        )
        figures = {
            **run_figures(answers),
            **audited,
            "resent": plan.resent,
            "replayed": plan.replayed,
            "altered_sent": len(plan.altered),
            "functions_killed": killed,
            "seconds": round(time.monotonic() - started + deploy_seconds, 1),
        }
    return report_figures(
        "webhooks",
        "Webhooks, from captures, events and the consumer's table",
        _LABELS,
        figures,
        MUST_BE_ZERO,
        good=f"Each of the {figures['distinct']} webhooks was captured, and was applied once.",
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
    attempts: dict[str, list[tuple[Genuine, Answered]]] = {each.serial: [] for each in webhooks}
    types: dict[str, set[str]] = {each.serial: set() for each in webhooks}
    for answered in answers:
        delivery = answered.delivery
        if isinstance(delivery, Genuine):
            attempts[delivery.webhook.serial].append((delivery, answered))
        elif isinstance(delivery, Altered) and delivery.type:
            types[delivery.webhook.serial].add(delivery.type)
    return {
        each.serial: SentWebhook(
            endpoint=each.provider,
            type=TYPES[each.provider],
            event_type=_event_type(each.provider),
            bodies=[answered.body for _, answered in attempts[each.serial]],
            data=[delivery.sent.data for delivery, _ in attempts[each.serial]],
            amount=each.data["amount"],
            accepted=any(answered.is_settled for _, answered in attempts[each.serial]),
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


def send_waves(
    aws: EmbeddedAws,
    ingress: DeployedWebhooks,
    tables: Sequence[str],
    functions: Sequence[str],
    waves: Sequence[Sequence[Delivery]],
    random: Random,
) -> tuple[list[Answered], int]:
    """Send every wave, in every wave but the last one while functions are killed.

    What a wave leaves over is sent with the next one, as providers do. Before the last one, genuine
    webhooks are sent again until enough faults have occurred.

    Args:
        aws: the AWS that the functions run on.
        ingress: the ingress.
        tables: physical names of the tables whose records become older.
        functions: the names of the functions that are killed at random.
        waves: the deliveries of each simulated time.
        random: draws the secrets.

    Returns:
        All answers, and the number of function processes that were killed.
    """
    secrets: dict[str, str] = {}
    answers: list[Answered] = []
    kills: list[int] = []
    sender = Sender(aws, ingress.url, secrets)

    def rotate() -> None:
        """Store a new secret of each endpoint, with which the providers sign from then on."""
        client = aws.client("secretsmanager")
        new = {
            name: f"whsec_{base64.b64encode(random.randbytes(24)).decode()}"
            for name in ingress.secrets
        }
        for name, arn in ingress.secrets.items():
            client.put_secret_value(SecretId=arn, SecretString=new[name])
        secrets.update(new)

    def send(
        deliveries: Sequence[Delivery], midway: Callable[[], object] | None = None
    ) -> list[Delivery]:
        """Send deliveries; return those that the provider sends again."""
        found = sender.send(deliveries, midway)
        answers.extend(found)
        return [each.delivery for each in found if not each.is_settled]

    rotate()
    left: list[Delivery] = []

    def send_while_killing(
        deliveries: Sequence[Delivery], midway: Callable[[], object] | None = None
    ) -> None:
        nonlocal left
        posted, most = lambda: sender.posted, KILLS_PER_WAVE
        with kill_at_random(
            aws, functions, every=_REQUESTS_A_KILL, clock=posted, most=most
        ) as killed:
            left = send([*left, *deliveries], midway)
        kills.append(killed.total())

    def grow_older(wave: int) -> None:
        if hours := HOURS_BEFORE[wave]:
            move_back(aws.client("dynamodb"), tables, hours)

    def faults(_: object) -> Mapping[str, float]:
        killed_requests = run_figures(answers)["killed_requests"]
        return {"functions_killed": sum(kills), "killed_requests": killed_requests}

    *killing, last = waves
    for number, wave in enumerate(killing):
        grow_older(number)
        send_while_killing(wave, rotate if number == _ROTATED_WAVE else None)
    again = [each for each in killing[-1] if isinstance(each, Genuine)]
    send_rounds(lambda _: send_while_killing(again), faults, _MINIMUM)
    grow_older(len(killing))
    left = send([*left, *last])
    for _ in range(_LAST_ROUNDS):
        left = send(left)
    sender.close()
    return answers, sum(kills)


def move_back(dynamodb: Any, tables: Sequence[str], hours: int) -> None:
    """Make every item of some tables older by some hours."""
    writes = []
    for table in tables:
        pages = dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        for item in (item for page in pages for item in page["Items"]):
            key = {"TableName": table, "Key": {"pk": item["pk"]}}
            writes.append({"Update": {**key, **update(item, hours)}})
    for some in batches(writes, _ACTIONS):
        dynamodb.transact_write_items(TransactItems=some)


def update(item: Item, hours: int) -> Mapping[str, Any]:
    """Return the parameters of the update that makes an item older."""
    older: dict[str, Any] = {
        name: {"N": str(int(item[name]["N"]) - hours * 3600 * parts)}
        for name, parts in _UNITS.items()
        if name in item
    }
    if "day" in item:  # <endpoint>#<date>#<shard>
        endpoint, _, shard = item["day"]["S"].split("#")
        moment = datetime.fromtimestamp(int(older["received_at"]["N"]) / 1000, UTC)
        older["day"] = {"S": f"{endpoint}#{moment:%Y-%m-%d}#{shard}"}
    return {
        "UpdateExpression": "SET " + ", ".join(f"#{name} = :{name}" for name in older),
        "ExpressionAttributeNames": {f"#{name}": name for name in older},
        "ExpressionAttributeValues": {f":{name}": value for name, value in older.items()},
    }
