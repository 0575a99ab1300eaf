"""The command `send`: publishes one event, as a producer does."""

import difflib
import json
import shlex
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

import typer
from botocore.exceptions import BotoCoreError
from typer import BadParameter

from once import settings
from once.errors import NoKey, OnceError, TooLarge
from once.events import claim_check, cloud_event, identity
from once.events.strict_json import parse
from once.names import EVENT_TYPE_ATTRIBUTE, PRODUCER_OBJECTS
from once.ops.aws.clients import client
from once.ops.aws.deployment import MAX_EVENT_BYTES, DeployedConsumer, Deployment
from once.ops.errors import OpsError
from once.ops.terminal import (
    JsonOption,
    ServiceOption,
    command_group,
    console,
    data_text,
    print_json,
)

SOURCE = "/once-send"

_AS_PRODUCERS = {
    "event_bridge": "with `aws events put-events`",
    "s3": "by writing an object into the bucket",
    "sns": "with `aws sns publish` to its topic",
    "json": "with `aws sqs send-message` to its queue",
    "schedule": "with `aws sqs send-message` to its queue, and the time as the event's id",
}

Attributes = dict[str, Any]

app = command_group()


@app.command()
def send(
    event_type: Annotated[str, typer.Option("--type", help="The event's type.")],
    data: Annotated[
        str,
        typer.Option(help="The event's data: JSON, @FILE with JSON, or - for standard input."),
    ],
    event_id: Annotated[
        str | None,
        typer.Option("--id", help="By default new. The same id and source are a duplicate."),
    ] = None,
    source: Annotated[str, typer.Option(help="The event's source.")] = SOURCE,
    subject: Annotated[str | None, typer.Option(help="The event's subject.")] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Send to this consumer's queue only, and not to the ingress topic."),
    ] = None,
    as_json: JsonOption = False,
    service: ServiceOption = "once",
) -> None:
    """Publish an event to the ingress topic, and print its id.

    A type that a FIFO consumer takes goes to the FIFO topic. Only types that a
    consumer takes from producers are published. With --to, the types that the
    consumer takes from other consumers are sent as well.
    """
    event_id = event_id or str(uuid4())
    named = {"id": event_id, "source": source, "type": event_type}
    envelope = {"specversion": "1.0", **named, **({} if subject is None else {"subject": subject})}
    try:
        body = json.dumps({**envelope, "data": parse(data_text(data), max_bytes=MAX_EVENT_BYTES)})
        event = cloud_event.read_event(body, max_bytes=MAX_EVENT_BYTES)
    except OnceError as error:
        raise BadParameter(f"no consumer could read this event: {error}") from None
    deployment = Deployment.find(service)
    receivers = _receivers(deployment, event_type, to)
    try:
        body, attributes = _stored_if_large(deployment, body)
        if to:
            consumer = deployment.consumer(to)
            takers = [consumer] if consumer.is_fifo else []
            client("sqs").send_message(
                QueueUrl=consumer.queue_url,
                MessageBody=body,
                MessageAttributes=attributes,
                **grouping(event, consumer.grouped_by, takers),
            )
        else:
            takers = deployment.takers(event_type) if deployment.is_ordered(event_type) else []
            typed = {EVENT_TYPE_ATTRIBUTE: {"DataType": "String", "StringValue": event_type}}
            client("sns").publish(
                TopicArn=deployment.ingress_topic(event_type),
                Message=body,
                MessageAttributes={**typed, **attributes},
                **grouping(event, deployment.group_field(event_type), takers),
            )
    except BotoCoreError as error:
        raise OpsError(
            f"{error}; perhaps it was sent: send it again with --id {event_id} and the same "
            "--source, and if it was, this is a duplicate"
        ) from None
    if as_json:
        print_json({**named, "consumers": receivers})
        return
    receiving = ", ".join(receivers)
    console.print(f"sent {event_type} to {receiving}; source {source}, id {event_id}")
    trace = shlex.join(["once", "trace", event_id, "--source", source])
    console.print(f"next: `{trace}`", soft_wrap=True)


def _receivers(deployment: Deployment, event_type: str, to: str | None) -> list[str]:
    """Return the names of the consumers that the event goes to, at least one."""
    consumers = [deployment.consumer(to)] if to else [*deployment.consumers.values()]
    if found := [one.name for one in consumers if event_type in one.ingress_types]:
        return found
    for one in consumers:
        if one.source is not None and (to or event_type in one.external):
            raise OpsError(
                f"{one.name!r} takes its events in the envelope of Source.{one.source.kind}, which "
                "this command does not write: send the event as its producers do, "
                f"{_AS_PRODUCERS[one.source.kind]}"
            )
    if internal := [one.name for one in consumers if event_type in one.events]:
        if to:
            return [to]
        raise OpsError(
            f"{event_type!r} comes from consumers, not from producers: send it to one queue with "
            f"--to {internal[0]} and the --source of its publisher, /once/ and its name"
        )
    known = {name for one in consumers for name in (one.event_types if to else one.ingress_types)}
    close = difflib.get_close_matches(event_type, known, n=1)
    every = f"the types are {', '.join(sorted(known))}" if known else "there are no types"
    choice = f"did you mean {close[0]!r}? {every}" if close else every
    if to:
        raise OpsError(f"{to!r} takes no {event_type!r}: {choice}")
    raise OpsError(f"no consumer takes {event_type!r} from producers: {choice}")


def _stored_if_large(deployment: Deployment, body: str) -> tuple[str, Attributes]:
    """Return a body that the ingress topic takes, and the message attributes that belong to it.

    A large body is stored, and its pointer returned with the attribute that AWS's clients set.
    """
    content = body.encode()
    if len(content) <= settings.MAX_BODY_BYTES - 1024:  # SNS counts the message attributes as well
        return body, {}
    if deployment.claim_bucket is None:
        raise OpsError(
            f"the event has {len(content)} bytes, and a topic takes {settings.MAX_BODY_BYTES}: set "
            "claim_check_mb= of the consumers that take it, and deploy"
        )
    reference = claim_check.Reference(deployment.claim_bucket, f"{PRODUCER_OBJECTS}{uuid4()}")
    place = {"Bucket": reference.bucket, "Key": reference.key}
    client("s3").put_object(**place, Body=content, ContentType="application/json")
    # By this attribute AWS's Extended Client libraries know a pointer.
    size = {"DataType": "Number", "StringValue": str(len(content))}
    return reference.pointer, {"ExtendedPayloadSize": size}


def grouping(
    event: cloud_event.CloudEvent, path: str | None, takers: Collection[DeployedConsumer]
) -> dict[str, Any]:
    """Return an event's message group and deduplication id, as SNS and SQS take them.

    `path` is the field that gives the group, `takers` are the consumers that take it from a FIFO
    topic or queue. The id is the SHA-256 of the event's dedup key by their rule, without the name
    of the consumer. If their rules differ, or one is not known, it is that of source and id.
    """
    if path is None:
        return {}
    group = identity.message_group(event.data, path)
    if group is None:
        raise OpsError(
            f"the data has no {path!r}, by which {event.type!r} is grouped: give it a text or a "
            "whole number there"
        )
    if not takers:
        return {"MessageGroupId": group}
    keys: set[str | None] = set()
    for consumer in takers:
        key = None
        with suppress(NoKey, TooLarge):  # the consumer quarantines the event with this reason
            key = consumer.key(event)
        keys.add(key and key.partition("#")[2])
    found = keys.pop() if len(keys) == 1 else None
    identity_of = found or f"{event.source}#{event.id}"
    deduplication_id = sha256(identity_of.encode()).hexdigest()
    return {"MessageGroupId": group, "MessageDeduplicationId": deduplication_id}
