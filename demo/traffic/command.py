"""The sender of sample orders, and its command `send`."""

import json
import os
import secrets
import ssl
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Annotated, Any

import boto3
from typer import Option

from demo.quiescence import wait_until_empty
from demo.traffic.caller import Caller, Exchange, api_url, place_orders
from demo.traffic.plan import EVENT_TYPE, SOURCE, SUBMITTED, SampleOrder, TrafficPlan, plan_traffic
from demo.traffic.publisher import publish, send_batch, stock_articles, to_queue
from emulator.local.steps import step
from once import Producer
from once.events.outgoing import OutgoingEvent
from once.names import EVENT_TYPE_ATTRIBUTE
from once.ops.aws.clients import batches, client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.ops.terminal import command_group, console

_SEED_BITS = 48
_SERVICE = "once"
_MOST = 100_000
_ACCEPTED = 202

app = command_group()


@app.command()
def send(
    count: Annotated[int, Option(min=1, max=_MOST, help="Number of orders.")] = 100,
    repeats: Annotated[int, Option(min=0, max=_MOST, help="Number of these sent again.")] = 0,
    seed: Annotated[
        int | None,
        Option(min=0, help="The same seed sends the same orders; by default all are new."),
    ] = None,
    timeout: Annotated[
        float, Option(min=1, help="Seconds in which the first orders must be processed.")
    ] = 300,
) -> None:
    """Send sample orders to the shop's API, signed with your credentials, and repeat some of them.

    A third each is repeated after its answer was lost, in parallel, and after it was processed.
    """
    planned = plan_traffic(
        count=count,
        callers=1,
        repeats=repeats,
        seed=secrets.randbits(_SEED_BITS) if seed is None else seed,
    )
    deployment, found = Deployment.find(_SERVICE), boto3.Session().get_credentials()
    if found is None:
        raise OpsError("there are no AWS credentials: requests to the shop's API are signed")
    caller = Caller(
        url=api_url(deployment),
        credentials=found.get_frozen_credentials(),
        region=client("sqs").meta.region_name,
        trust=ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE")),
    )
    sent = send_orders(planned, [caller], deployment, client, timeout)
    statuses = Counter(a["status"] for each in sent["commands"] for a in each["answers"])
    if others := {*statuses} - {_ACCEPTED}:
        raise OpsError(
            f"orders were answered with {', '.join(map(str, sorted(others)))}, and not with "
            f"{_ACCEPTED}: check that you may call execute-api:Invoke on the shop's API"
        )


def send_orders(
    planned: TrafficPlan,
    callers: Sequence[Caller],
    deployment: Deployment,
    client_of: Callable[[str], Any],
    timeout: float,
) -> dict[str, Any]:
    """Stock the articles, place the orders of a plan, and send copies of their events.

    Args:
        planned: the plan.
        callers: its callers.
        deployment: the service.
        client_of: returns the boto3 client of a service, such as `sns`.
        timeout: seconds in which the first orders must be processed.

    Returns:
        The manifest, for the audit.

    Raises:
        OpsError: a request or message was not accepted, or the first ones not processed in time.
    """
    dynamodb, sqs = client_of("dynamodb"), client_of("sqs")
    exchanges: list[Exchange] = []

    def place(name: str, late: bool) -> None:
        requests = planned.late_requests if late else planned.first_requests
        if requests:
            with step(f"sending {len(requests)} {name} (seed {planned.seed})", console=console):
                exchanges.extend(place_orders(callers, requests))

    def send_copies(orders: Iterable[SampleOrder]) -> None:
        """Send the events of orders to the queues: only the relay may publish to their topic."""
        found = [(order, events[order.order_id]) for order in orders if order.order_id in events]
        bodies = [json.dumps({**event, "data": order.data}) for order, event in found]
        typed = {EVENT_TYPE_ATTRIBUTE: {"DataType": "String", "StringValue": SUBMITTED}}
        entries = [{"MessageBody": body, "MessageAttributes": typed} for body in bodies]
        for consumer in deployment.takers(SUBMITTED):
            for some in batches(entries):
                send_batch(to_queue(sqs, consumer.queue_url), some)

    with step(f"putting {len(planned.stock)} articles on the shelf", console=console):
        stock_articles(dynamodb, deployment.table("stock"), planned.stock)
    if planned.malformed:
        topic = deployment.ingress_topic(EVENT_TYPE)
        # No event could be made of a malformed body. Each is sent as the whole event.
        malformed = [
            OutgoingEvent(str(number), SOURCE, EVENT_TYPE, body)
            for number, body in enumerate(planned.malformed)
        ]
        publish(Producer(source=SOURCE, topic_arn=topic, sns=client_of("sns")), malformed)
    place("requests", late=False)
    events = submitted_events(dynamodb, deployment.dedup_table, planned.orders)
    send_copies(planned.early)
    late = [*planned.late, *(order.conflicting() for order in planned.conflicts)]
    if late or planned.late_requests:
        urls = [url for each in deployment.consumers.values() for url in each.queue_urls]
        with step("waiting until the consumers' queues are empty", console=console):
            try:
                for _ in range(2):  # a message takes a moment from a topic to a queue
                    wait_until_empty(sqs, urls, timeout=timeout)
            except TimeoutError as error:
                advice = "read the functions' logs, or give them more time with --timeout"
                raise OpsError(f"{error}: {advice}") from None
        place("late requests", late=True)
        send_copies(late)
    return build_manifest(planned, exchanges, events)


def submitted_events(
    dynamodb: Any, dedup_table: str, orders: Iterable[SampleOrder]
) -> dict[str, dict[str, Any]]:
    """Return the event of each order by its id, from the outboxes of the dedup records."""
    wanted = {order.order_id for order in orders}
    pages = dynamodb.get_paginator("scan").paginate(
        TableName=dedup_table,
        ConsistentRead=True,
        FilterExpression="begins_with(pk, :commands) AND attribute_exists(outbox)",
        ExpressionAttributeValues={":commands": {"S": "checkout#"}},
        ProjectionExpression="outbox",
    )
    events = (
        event
        for page in pages
        for item in page["Items"]
        for event in json.loads(item["outbox"]["S"])
    )
    return {event["subject"]: event for event in events if event["subject"] in wanted}


def build_manifest(
    plan: TrafficPlan, exchanges: Iterable[Exchange], events: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the manifest of a plan that was sent, for the audit.

    Args:
        plan: the plan.
        exchanges: its requests with their answers.
        events: the event of each order, by the order's id.
    """
    sends, conflicts = plan.sends, Counter(plan.conflicts)
    by_command: dict[tuple[int, SampleOrder], list[Exchange]] = defaultdict(list)
    for each in exchanges:
        by_command[each.request.caller, each.request.order].append(each)
    return {
        "seed": plan.seed,
        "stock": dict(plan.stock),
        "orders": [
            {
                **asdict(order),
                "declined": order.declined,
                "abandoned": order.abandoned,
                "total": order.total,
                "event_id": events.get(order.order_id, {}).get("id", ""),
                "sends": sends[order],
                "conflicts": conflicts[order],
            }
            for order in plan.orders
        ],
        "commands": [
            {
                "order_id": order.order_id,
                "borrowed": caller != order.caller,
                "requests": sum(each.attempts for each in several if not each.request.altered),
                "lost": sum(len(each.request.losses) for each in several),
                "answers": [
                    {**asdict(each.answer), "altered": each.request.altered} for each in several
                ],
            }
            for (caller, order), several in by_command.items()
        ],
        "malformed": [sha256(body.encode()).hexdigest() for body in plan.malformed],
        "sent": plan.messages,
    }
