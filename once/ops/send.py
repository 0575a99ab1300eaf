"""The command `send`: publishes one event, as a producer does."""

import difflib
import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from botocore.exceptions import BotoCoreError
from typer import BadParameter

from once.errors import OnceError
from once.events.cloud_event import read_event
from once.events.strict_json import parse
from once.ops.aws.claims import MOST_BYTES, Attributes, stored_if_large
from once.ops.aws.clients import client
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.errors import OpsError
from once.ops.terminal.console import ServiceOption, command_group, console, print_json
from once.schema import EVENT_TYPE_ATTRIBUTE

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

SOURCE = "/once-send"

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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
    service: ServiceOption = "once",
) -> None:
    """Publish an event to the ingress topic, and print its id.

    Only types that a consumer takes from producers are published. With --to, the
    types that the consumer takes from other consumers are sent as well.
    """
    event_id = event_id or str(uuid4())
    body = _body(event_type, data, event_id, source, subject)
    deployment = Deployment.find(service)
    receivers = _receivers(deployment, event_type, to)
    try:
        body, attributes = stored_if_large(deployment, body)
        if to:
            _send(deployment.consumer(to), body, attributes)
        else:
            _publish(deployment, event_type, body, attributes)
    except BotoCoreError as error:
        raise OpsError(
            f"{error}; perhaps it was sent: send it again with --id {event_id} and the same "
            "--source, and if it was, this is a duplicate"
        ) from None
    if as_json:
        print_json({"id": event_id, "source": source, "type": event_type, "consumers": receivers})
        return
    receiving = ", ".join(receivers)
    console.print(f"sent {event_type} to {receiving}; source {source}, id {event_id}")
    console.print(f"once trace {event_id} --source {source}", soft_wrap=True)


def _body(event_type: str, data: str, event_id: str, source: str, subject: str | None) -> str:
    """Return the CloudEvent as JSON, after the checks that a consumer makes.

    Raises:
        typer.BadParameter: a consumer could not read it.
    """
    event = {"specversion": "1.0", "id": event_id, "source": source, "type": event_type}
    event |= {"subject": subject} if subject is not None else {}
    try:
        parsed = parse(_text(data), max_bytes=MOST_BYTES)
        body = json.dumps({**event, "data": parsed})
        read_event(body, max_bytes=MOST_BYTES)
    except OnceError as error:
        raise BadParameter(f"no consumer could read this event: {error}") from None
    return body


def _text(data: str) -> str:
    if data == "-":
        return sys.stdin.read()
    if not data.startswith("@"):
        return data
    try:
        return Path(data[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadParameter(f"{data[1:]} cannot be read: {error}", param_hint="--data") from None


def _receivers(deployment: Deployment, event_type: str, to: str | None) -> list[str]:
    """Return the names of the consumers that the event goes to.

    Raises:
        OpsError: there are none.
    """
    if to:
        consumer = deployment.consumer(to)
        taken = {*consumer.external, *consumer.events}
        if event_type not in taken:
            raise OpsError(f"{to!r} takes no {event_type!r}: {_choice(event_type, taken)}")
        return [to]
    consumers = deployment.consumers.values()
    found = [one.name for one in consumers if event_type in one.external]
    if not found:
        raise OpsError(_refusal(event_type, deployment))
    return found


def _refusal(event_type: str, deployment: Deployment) -> str:
    consumers = deployment.consumers.values()
    internal = [one.name for one in consumers if event_type in one.events]
    if internal:
        return (
            f"{event_type!r} comes from consumers, not from producers: send it to one queue with "
            f"--to {internal[0]} and the --source of its publisher, /once/ and its name"
        )
    taken = {name for one in consumers for name in one.external}
    choice = _choice(event_type, taken)
    return f"no consumer takes {event_type!r} from producers: {choice}"


def _choice(given: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    every = f"the types are {', '.join(sorted(known))}" if known else "there are no types"
    return f"did you mean {close[0]!r}? {every}" if close else every


def _publish(deployment: Deployment, event_type: str, body: str, attributes: Attributes) -> None:
    sns: SNSClient = client("sns")
    sns.publish(
        TopicArn=deployment.ingress_topic_arn,
        Message=body,
        MessageAttributes={
            EVENT_TYPE_ATTRIBUTE: {"DataType": "String", "StringValue": event_type},
            **attributes,
        },
    )


def _send(consumer: DeployedConsumer, body: str, attributes: Attributes) -> None:
    sqs: SQSClient = client("sqs")
    sqs.send_message(QueueUrl=consumer.queue_url, MessageBody=body, MessageAttributes=attributes)
