"""The command `send`: publishes one event as a producer does, or sends one command as a client."""

import difflib
import json
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Annotated
from uuid import uuid4

import typer
from botocore.exceptions import BotoCoreError, ClientError
from typer import BadParameter

from once import settings
from once.errors import OnceError, TooLarge
from once.events import claim_check
from once.events.outgoing import OutgoingEvent
from once.events.strict_json import parse
from once.names import PRODUCER_OBJECTS
from once.ops.aws.clients import client
from once.ops.aws.deployment import MAX_EVENT_BYTES, SEND_SOURCE, DeployedConsumer, Deployment
from once.ops.command_request import CommandOptions, send_command
from once.ops.errors import OpsError
from once.ops.progress import find_deployment
from once.ops.terminal import (
    JsonOption,
    ServiceOption,
    command_group,
    console,
    data_text,
    print_json,
)
from once.outbox.publisher import deduplication_id
from once.producer import NotPublished, Producer

_AS_PRODUCERS = {
    "event_bridge": "with `aws events put-events`",
    "s3": "by writing an object into the bucket",
    "sns": "with `aws sns publish` to its topic",
    "json": "with `aws sqs send-message` to its queue",
    "schedule": "with `aws sqs send-message` to its queue, and the time as the event's id",
}

app = command_group()


@app.command()
def send(
    data: Annotated[
        str,
        typer.Option(
            help="The data of event or command: JSON, @FILE with JSON, or - for standard input."
        ),
    ],
    command: CommandOptions,
    event_type: Annotated[
        str | None, typer.Option("--type", help="The event's type; needed without --route.")
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option("--id", help="By default new. The same id and source are a duplicate."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help=f"The event's source; by default {SEND_SOURCE}.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="The event's subject.")] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Send to this consumer's queue only, and not to the ingress topic; or to the API "
            "of these commands."
        ),
    ] = None,
    as_json: JsonOption = False,
    service: ServiceOption = "once",
) -> None:
    """Publish an event to the ingress topic, or send a command.

    A type that a FIFO consumer takes goes to the FIFO topic. Only types that a
    consumer takes from producers are published. With --to, the types that the
    consumer takes from other consumers are sent as well.

    With --route, a command is sent by HTTP as a client sends it, and its answer
    printed.
    """
    _check_options(
        command,
        {"--type": event_type, "--id": event_id, "--source": source, "--subject": subject},
    )
    if command.route is not None:
        send_command(command, data_text(data), to=to, service=service, as_json=as_json)
        return
    if event_type is None:
        raise BadParameter("give --type for an event, or --route for a command")
    source = source or SEND_SOURCE
    event_id = event_id or str(uuid4())
    try:
        content = parse(data_text(data), max_bytes=MAX_EVENT_BYTES)
    except OnceError as error:
        raise BadParameter(f"no consumer could read this event: {error}") from None
    deployment = find_deployment(service)
    receivers = _receivers(deployment, event_type, to)
    consumer = deployment.consumer(to) if to else None
    topic = "" if consumer else deployment.ingress_topic(event_type)
    producer = Producer(source=source, topic_arn=topic, sns=client("sns"))
    event_of = partial(
        producer.event,
        event_type,
        content,
        event_id=event_id,
        subject=subject,
        grouped_by=consumer.grouped_by if consumer else deployment.group_field(event_type),
    )
    try:
        try:
            event = event_of()
        except TooLarge:
            event = event_of(dataref=_stored(deployment, json.dumps(content).encode()))
        if consumer:
            _send_to(consumer, event)
        else:
            producer.publish([event])
    except (BotoCoreError, NotPublished) as error:
        if isinstance(error.__cause__, ClientError):
            raise error.__cause__ from None
        raise OpsError(
            f"{error}; perhaps it was sent: send it again with --id {event_id} and the same "
            "--source, and if it was, this is a duplicate"
        ) from None
    except OnceError as error:
        raise BadParameter(f"no consumer could read this event: {error}") from None
    if as_json:
        named = {"id": event_id, "source": source, "type": event_type}
        print_json({**named, "consumers": receivers})
        return
    receiving = ", ".join(receivers)
    told = f"sent {event_type} to {receiving}; source {source}, id {event_id}"
    console.print(told, soft_wrap=True)
    known = ["--source", source] if source != SEND_SOURCE else []
    trace = shlex.join(["once", "trace", event_id, *known])
    console.print(f"next: `{trace}`", soft_wrap=True)


def _check_options(command: CommandOptions, of_events: Mapping[str, str | None]) -> None:
    """Refuse options of events for a command, and those of commands for an event."""
    given = [name for name, value in of_events.items() if value is not None]
    if command.route is not None and given:
        raise BadParameter(f"{given[0]} is an option of events, and --route of commands")
    if command.route is None and any((command.key, command.url, command.header, command.sign)):
        raise BadParameter(
            "--key, --url, --header and --sign are options of commands: give --route"
        )


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


def _stored(deployment: Deployment, content: bytes) -> str:
    """Store data in the claim-check bucket, as a producer does, and return its URI."""
    if deployment.claim_bucket is None:
        raise OpsError(
            f"the data has {len(content)} bytes, and an event in a topic at most "
            f"{settings.MAX_BODY_BYTES}: set claim_check_mb= of the consumers that take it, and "
            "deploy"
        )
    reference = claim_check.Reference(deployment.claim_bucket, f"{PRODUCER_OBJECTS}{uuid4()}")
    place = {"Bucket": reference.bucket, "Key": reference.key}
    client("s3").put_object(**place, Body=content, ContentType="application/json")
    return reference.uri


def _send_to(consumer: DeployedConsumer, event: OutgoingEvent) -> None:
    grouping = {} if event.group is None else {"MessageGroupId": event.group}
    if consumer.is_fifo:
        grouping["MessageDeduplicationId"] = deduplication_id(event)
    client("sqs").send_message(QueueUrl=consumer.queue_url, MessageBody=event.body, **grouping)
