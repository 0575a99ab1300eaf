"""The command `status`: depth and age of each queue, outcomes of commands, and what is stuck."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table

from once.names import UNROUTED, Limits, Metric, QueueRule, explained_by
from once.ops import terminal
from once.ops.aws.clients import client, depth, oldest_message_seconds
from once.ops.aws.deployment import Deployment
from once.ops.aws.function_figures import read_figures
from once.ops.aws.function_logs import start_errors
from once.ops.errors import ExitCode, OpsError
from once.ops.operator_notes import Acknowledgement, Pause, read_notes
from once.ops.progress import find_deployment, saying
from once.ops.retries import OpenBreaker, Retries, read_retries

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

MAX_AGE = "1h"
"""Age of an oldest message from which its queue counts as stuck."""

OUTCOMES = {
    "committed": Metric.COMMANDS_COMMITTED,
    "refused": Metric.COMMANDS_REFUSED,
    "repeated": Metric.COMMANDS_REPEATED,
    "conflicting": Metric.COMMAND_CONFLICTS,
    "invalid": Metric.COMMANDS_INVALID,
    "failed": Metric.COMMANDS_FAILED,
}
"""Outcomes of requests for commands, and the metric of each."""

app = terminal.command_group()


@dataclass(frozen=True, slots=True)
class MappingStatus:
    """An event source mapping of a function, by its UUID; `source` is its queue's or stream's ARN.

    `result` is Lambda's `LastProcessingResult`, None if it has not polled yet.
    """

    source: str
    state: str
    result: str | None
    uuid: str

    @property
    def is_disabled(self) -> bool:
        return self.state.startswith("Disabl")  # or is about to be

    @property
    def fault(self) -> str | None:
        """Why the function gets nothing from this source, as a text; None without a fault."""
        if self.is_disabled:
            return f"its event source mapping of {self.source} is {self.state}"
        if (self.result or "").startswith("PROBLEM"):
            return f"its event source mapping of {self.source} says {self.result}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """Queues of one consumer, of the relay, or of unrouted events.

    None stands for a figure that is not known, or for a queue that does not exist.

    Attributes:
        consumer: the consumer's name, or `RELAY` or `UNROUTED`.
        oldest_seconds: age of the oldest message, isolated ones included.
        dead_letters: dead letters; for the sweep queue, unrouted events.
        message_bytes: the smallest MaximumMessageSize of these queues.
        queue_faults: attributes of an existing queue that break a rule of its consumer, as texts.
        start_error: the error with which the function fails to start; None without one. It is not
            looked for while the queues are empty.
        mappings: the event source mappings of the function; empty if they are not known.
        retrying: messages under retry, by the function's log, which is not read while the queues
            are empty.
        breaker: the circuit breaker of the function, if it is open.
        retention_seconds: the shortest time for which a queue of the consumer keeps a message.
        pause: the note of an operator who has paused the consumer.
        acknowledged: the notes of operators who work on its failures.
    """

    consumer: str
    visible: int | None = None
    in_flight: int | None = None
    delayed: int | None = None
    oldest_seconds: int | None = None
    isolated: int | None = None
    dead_letters: int
    message_bytes: int
    queue_faults: tuple[str, ...] = ()
    start_error: str | None = None
    mappings: tuple[MappingStatus, ...] = ()
    retrying: int | None = None
    breaker: OpenBreaker | None = None
    retention_seconds: int | None = None
    pause: Pause | None = None
    acknowledged: Sequence[Acknowledgement] = ()

    @property
    def mapping_faults(self) -> list[str]:
        shown = [each for each in self.mappings if not (self.pause and each.is_disabled)]
        return [fault for each in shown if (fault := each.fault)]

    @property
    def is_disabled(self) -> bool:
        """Whether the function has mappings, and receives from none of them."""
        return bool(self.mappings) and all(each.is_disabled for each in self.mappings)

    @property
    def waiting(self) -> int:
        """Number of messages in the consumer's queues."""
        return sum(filter(None, (self.visible, self.in_flight, self.delayed, self.isolated)))

    @property
    def oldest_text(self) -> str:
        return _age(self.oldest_seconds)

    @property
    def retention_text(self) -> str:
        return terminal.format_age(timedelta(seconds=self.retention_seconds or 0))

    def deleted_from(self, pause: Pause) -> datetime:
        """Return from when on SQS deletes waiting messages of a paused consumer."""
        oldest = pause.oldest
        if self.oldest_seconds:
            oldest = datetime.now(UTC) - timedelta(seconds=self.oldest_seconds)
        return oldest + timedelta(seconds=self.retention_seconds or 0)

    @property
    def pause_text(self) -> str | None:
        """Who has paused the consumer, and how long messages may wait; None if nobody has."""
        if self.pause is None:
            return None
        explained = explained_by("paused")
        if self.mappings and not self.is_disabled:
            return (
                f"{self.pause}; but an event source mapping is enabled again, perhaps by a "
                f"deployment: {explained}"
            )
        moment = terminal.format_time(self.deleted_from(self.pause))
        return f"{self.pause}; SQS deletes waiting messages from {moment} on: {explained}"

    @property
    def has_messages(self) -> bool:
        """Whether messages wait, or are dead letters. The relay's stream is not known."""
        counts = (self.visible, self.in_flight, self.delayed, self.isolated, self.dead_letters)
        return self.visible is None or any(counts)

    @property
    def warnings(self) -> list[str]:
        """Attributes of its queues with which messages may be lost or refused, as texts."""
        size = (
            f"set MaximumMessageSize of its queues to {Limits.MESSAGE_BYTES} (is "
            f"{self.message_bytes}): isolated messages, dead letters and redrives may be refused"
        )
        small = [size] if self.message_bytes < Limits.MESSAGE_BYTES else []
        return [f"{self.consumer}: {each}" for each in (*small, *self.queue_faults)]

    def stuck(self, max_age_seconds: float) -> list[str]:
        message = "unrouted event" if self.consumer == UNROUTED else "dead letter"
        found = [terminal.counted(self.dead_letters, message)] if self.dead_letters else []
        if self.oldest_seconds is not None and self.oldest_seconds >= max_age_seconds:
            found.append(f"a message has waited for {_age(self.oldest_seconds)}")
        if self.pause_text:
            found.append(self.pause_text)
        if self.start_error:
            found.append(no_start(self.start_error))
        if self.breaker:
            found.append(str(self.breaker))
        return [*found, *self.mapping_faults]


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """A function with commands: its requests in the last hour, by their outcome in `OUTCOMES`.

    `start_error` is the error with which it fails to start; None without one.
    """

    name: str
    requests: Mapping[str, int]
    start_error: str | None

    @property
    def stuck(self) -> list[str]:
        return [no_start(self.start_error)] if self.start_error else []


def no_start(error: str) -> str:
    """Return the fault of a function that fails to start with an error."""
    return f"its function cannot start: {error}"


@app.command()
def status(
    service: terminal.ServiceOption = "once",
    max_age: Annotated[
        str,
        typer.Option(metavar="AGE", help="A queue with an older message is stuck: 90m, 26h, 2d."),
    ] = MAX_AGE,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show queues, requests for commands, and what is stuck.

    The numbers are approximate on AWS. The command ends with exit code 4 if something
    is stuck: there are dead letters or unrouted events, a function cannot start, a circuit
    breaker is open, a consumer is paused, an event source mapping is disabled or has a
    problem, or the oldest
    message of a queue is older than --max-age. The age is not known for a queue
    without recent use, nor in an embedded AWS. Failed starts are read from the last hour
    of the logs, if messages wait, and always for commands; `once retries` shows the
    messages under retry, which are read from two hours. Requests for commands are
    those of the last hour. A queue that refuses messages of 1 MiB is named below
    the table, as is an existing queue with an attribute that breaks a rule of its consumer.
    """
    seconds = terminal.parse_age_option(max_age, option="--max-age").total_seconds()
    deployment = find_deployment(service)
    with saying("reading queues and logs"):
        rows, commands = read_status(deployment), read_commands(deployment)
    faults = [
        (row.consumer, one)
        for row in rows
        if (stuck := row.stuck(seconds))
        for one in (*stuck, *row.acknowledged)
    ]
    faults += [(each.name, one) for each in commands for one in each.stuck]
    told = "".join(f"\n  {name}: {one}" for name, one in faults)
    if as_json:
        queues = [{**asdict(row), "stuck": row.stuck(seconds)} for row in rows]
        doors = [{**asdict(each), "stuck": each.stuck} for each in commands]
        found = {"service": service, "stuck": bool(told), "queues": queues, "commands": doors}
        terminal.print_json(found)
    else:
        terminal.console.print(_table(rows, seconds))
        if commands:
            terminal.console.print(_command_table(commands))
    if told:
        remedy = f"`once dlq list` and {explained_by('runbook')} say what to do"
        raise OpsError(f"stuck; {remedy}{told}", ExitCode.STUCK)


def read_status(deployment: Deployment) -> list[QueueStatus]:
    """Return the status of all queues; the relay and unrouted events come last."""
    sqs: SQSClient = client("sqs")
    consumers = [*deployment.consumers.values()]
    swept = [*filter(None, [deployment.sweep_queue_url])]
    urls = [*(url for one in consumers for url in one.queue_urls), *swept]
    ages = dict(zip(urls, oldest_message_seconds(client("cloudwatch"), urls), strict=True))

    def row(consumer: str, dead_letter_url: str, *queue_urls: str) -> QueueStatus:
        messages, *depths = [depth(sqs, url) for url in (dead_letter_url, *queue_urls)]
        numbers: dict[str, Any] = {}
        if depths:
            main, *isolated = depths
            names = ("visible", "in_flight", "delayed")
            numbers = {name: getattr(main, name) for name in names}
            numbers["isolated"] = isolated[0].total if isolated else None
            known = [age for url in queue_urls if (age := ages[url]) is not None]
            numbers["oldest_seconds"] = max(known, default=None)
            numbers["retention_seconds"] = min(each.retention_seconds for each in depths)
        return QueueStatus(
            consumer=consumer,
            dead_letters=messages.total,
            message_bytes=min(each.message_bytes for each in (messages, *depths)),
            **numbers,
        )

    rows = [
        *(row(one.name, one.dead_letter_url, *one.queue_urls) for one in consumers),
        *(
            row(owner, url, *(swept if owner == UNROUTED else []))
            for owner, url in deployment.kept_events.items()
        ),
    ]
    faults = {one.name: _queue_faults(sqs, one.queue_url, one.queue_rules) for one in consumers}
    names = {each.consumer: f"{deployment.service}-{each.consumer}" for each in rows}
    read = [names[each.consumer] for each in rows if each.has_messages]
    errors, mappings = start_errors(client("logs"), read), function_mappings()
    notes = read_notes(deployment)
    busy = [one.consumer for one in rows if one.has_messages and one.consumer in faults]
    retries = read_retries(deployment, busy, datetime.now(UTC))
    return [
        replace(
            each,
            queue_faults=faults.get(each.consumer, ()),
            start_error=errors.get(name),
            mappings=tuple(mappings.get(name, ())),
            retrying=len(found.messages) if isinstance(found, Retries) else None,
            breaker=found.breaker if isinstance(found, Retries) else None,
            pause=notes.pauses.get(each.consumer),
            acknowledged=[one for one in notes.acknowledged if one.consumer == each.consumer],
        )
        for each in rows
        for name, found in [(names[each.consumer], retries.get(each.consumer))]
    ]


def read_commands(deployment: Deployment) -> list[CommandStatus]:
    """Return the status of each function with commands."""
    functions = {each.name: each.function_name for each in deployment.commands.values()}
    if not functions:
        return []
    figures = read_figures([*functions.values()], datetime.now(UTC), [*OUTCOMES.values()])
    errors = start_errors(client("logs"), [*functions.values()])

    def requests(function: str) -> dict[str, int]:
        return {name: int(sum(figures.minutes(function, [of]))) for name, of in OUTCOMES.items()}

    return [CommandStatus(name, requests(of), errors.get(of)) for name, of in functions.items()]


def _queue_faults(sqs: "SQSClient", url: str, rules: Mapping[str, int]) -> tuple[str, ...]:
    """Compare an existing queue, of which CloudFormation knows no attribute, with its rules."""
    if not rules:
        return ()
    names: Any = (QueueRule.VISIBILITY, QueueRule.RETENTION, "RedrivePolicy")
    found: Any = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    found |= json.loads(found.get("RedrivePolicy", "{}"))
    faults = []
    for name, demanded in rules.items():
        value = int(found.get(name, demanded))
        too_high = name == QueueRule.RETENTION and value > demanded
        if too_high or (name != QueueRule.RETENTION and value < demanded):
            change = "lower" if too_high else "raise"
            faults.append(f"{change} {name} of its queue to {demanded} (is {value})")
    return tuple(faults)


def function_mappings() -> Mapping[str, Sequence[MappingStatus]]:
    """Return the mappings of the account by function; none if they may not be read."""
    try:
        return read_mappings()
    except (BotoCoreError, ClientError):  # such as an older policy of an operator
        return {}


def read_mappings() -> Mapping[str, Sequence[MappingStatus]]:
    """Return the mappings of the account and Region, by function."""
    lambda_client: LambdaClient = client("lambda")
    found: dict[str, list[MappingStatus]] = {}
    for page in lambda_client.get_paginator("list_event_source_mappings").paginate():
        for each in page["EventSourceMappings"]:
            function = each["FunctionArn"].split(":")[6]
            source, result = each.get("EventSourceArn", ""), each.get("LastProcessingResult")
            mapping = MappingStatus(source, each["State"], result, each["UUID"])
            found.setdefault(function, []).append(mapping)
    return found


def _table(rows: Sequence[QueueStatus], max_age_seconds: float) -> Table:
    numbers = (">visible", ">in flight", ">delayed", ">oldest", ">isolated", ">retrying")
    warned = "\n".join(each for row in rows for each in row.warnings) or None
    columns = ("consumer", *numbers, ">dead letters")
    table = terminal.table(*columns, caption=warned, caption_justify="left")
    for row in rows:
        age, isolated = _age(row.oldest_seconds), row.isolated
        counts = (row.visible, row.in_flight, row.delayed, age, isolated, row.retrying)
        cells = (*counts, row.dead_letters)
        shown = [terminal.UNKNOWN if each is None else str(each) for each in cells]
        style = "red" if row.stuck(max_age_seconds) else "yellow" if row.retrying else None
        name = f"{row.consumer} (paused)" if row.pause else row.consumer
        table.add_row(name, *shown, style=style)
    return table


def _command_table(commands: Sequence[CommandStatus]) -> Table:
    title = "requests in the last hour"
    table = terminal.table("commands", *(f">{name}" for name in OUTCOMES), title=title)
    for each in commands:
        style = "red" if each.stuck else None
        table.add_row(each.name, *map(str, each.requests.values()), style=style)
    return table


def _age(seconds: int | None) -> str:
    if seconds is None:
        return terminal.UNKNOWN
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
