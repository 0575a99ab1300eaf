"""Messages under retry and open circuit breakers, and the command `retries`.

Both are read from the log lines that consumers write about messages: SQS does not show what is in
flight. A message is under retry until a line says that it was committed, refused, acknowledged as a
duplicate, or quarantined.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

from botocore.exceptions import BotoCoreError, ClientError
from typer import Option

from once.names import explained_by
from once.ops import terminal
from once.ops.aws import clients, function_logs
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError, error_with_remedy
from once.ops.operator_notes import read_notes
from once.ops.progress import find_deployment, saying

PERIOD = timedelta(hours=2)
"""Period of the log that is read. The longest delay of a message is an hour by default."""
_MAX_SHOWN = 50

app = terminal.command_group()


@dataclass(frozen=True, slots=True)
class RetryingMessage:
    """A message that failed, or was held back, and will be delivered again.

    None stands for what its last log line does not have: a message that is held back unread has no
    event type and no key, and one whose invocation ran out of time has no time of its own.

    Attributes:
        error: class and place of the error; `Suspended` if the breaker held it back.
        failing_since: its first failure in the period that is read.
        receives: receives in its present queue, the last one included.
    """

    consumer: str
    message_id: str
    key_hash: str | None
    event_type: str | None
    error: str
    receives: int
    receives_left: int | None
    next_attempt: datetime | None
    failing_since: datetime


@dataclass(frozen=True, slots=True)
class OpenBreaker:
    """A circuit breaker that holds messages back. `waiting` is how many messages are retried."""

    since: datetime | None
    error: str
    next_attempt: datetime | None
    waiting: int

    def __str__(self) -> str:
        known = [f"since {terminal.format_time(self.since)}"] if self.since else []
        known.append(f"after {self.error or 'an unknown error'}")
        known.append(f"{terminal.counted(self.waiting, 'message')} under retry")
        if self.next_attempt:
            known.append(f"next attempt {terminal.format_time(self.next_attempt)}")
        return f"its circuit breaker is open {', '.join(known)}"


@dataclass(frozen=True, slots=True)
class Retries:
    """Messages of one consumer under retry, the next attempt first; and its breaker, if open."""

    messages: Sequence[RetryingMessage] = ()
    breaker: OpenBreaker | None = None


def read_retries(
    deployment: Deployment, consumers: Iterable[str], now: datetime
) -> Mapping[str, Retries | Exception]:
    """Return the retries of each consumer by its name, or the error with which its log was read."""
    logs, names = clients.client("logs"), [*consumers]

    def read(consumer: str) -> Retries | Exception:
        entries = function_logs.message_entries(
            logs, deployment.service, consumer, "receive_count", now - PERIOD, outcomes=True
        )
        try:
            return retries_of(consumer, sorted(entries, key=lambda entry: entry.at))
        except logs.exceptions.ResourceNotFoundException:  # it has never run
            return Retries()
        except (BotoCoreError, ClientError) as error:
            return error

    with ThreadPoolExecutor(clients.THREADS) as pool:
        return dict(zip(names, pool.map(read, names), strict=True))


def retries_of(consumer: str, entries: Iterable[function_logs.LogEntry]) -> Retries:
    """Return the retries that log entries of one consumer show, which are in the order of time."""
    waiting: dict[str, RetryingMessage] = {}
    breaker: function_logs.LogEntry | None = None
    for entry in entries:
        message_id, hashed = str(entry.fields.get("message_id")), entry.fields.get("key_hash")
        earlier = waiting.pop(message_id, None)
        # A message that was isolated or sent twice has other ids, and the same key.
        for one in [one for one in waiting.values() if hashed and one.key_hash == hashed]:
            earlier = waiting.pop(one.message_id)
        if entry.message == function_logs.RETRIED:
            waiting[message_id] = _retrying(consumer, entry, earlier)
            breaker = entry if "breaker_error" in entry.fields else breaker
        elif entry.message in (function_logs.COMMITTED, function_logs.REFUSED):
            breaker = None  # an attempt has succeeded
    messages = sorted(waiting.values(), key=lambda one: one.next_attempt or one.failing_since)
    if breaker is None or not messages:
        return Retries(messages)
    since, next_attempt = (
        _moment(breaker, f"breaker_{name}") for name in ("open_since", "next_attempt")
    )
    error = str(breaker.fields["breaker_error"])
    return Retries(messages, OpenBreaker(since, error, next_attempt, len(messages)))


def _retrying(
    consumer: str, entry: function_logs.LogEntry, earlier: RetryingMessage | None
) -> RetryingMessage:
    found = entry.fields
    return RetryingMessage(
        consumer=consumer,
        message_id=str(found.get("message_id")),
        key_hash=found.get("key_hash") or getattr(earlier, "key_hash", None),
        event_type=found.get("event_type") or getattr(earlier, "event_type", None),
        error=str(found.get("error", terminal.UNKNOWN)),
        receives=int(found.get("receive_count", 0)),
        receives_left=found.get("receives_left"),
        next_attempt=_moment(entry, "next_attempt"),
        failing_since=earlier.failing_since if earlier else entry.at,
    )


def _moment(entry: function_logs.LogEntry, name: str) -> datetime | None:
    return terminal.parse_timestamp(entry.fields.get(name))


@app.command("retries")
def retries_command(
    consumer: Annotated[
        str | None, Option("--consumer", help="Only messages of this consumer.")
    ] = None,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the messages under retry, and open circuit breakers.

    They are read from the log lines of the last two hours: a message with its error,
    its receives and its next attempt. The key's hash leads to the rest: `once trace HASH`.
    """
    deployment, now = find_deployment(service), datetime.now(UTC)
    names = [deployment.consumer(consumer).name] if consumer else [*deployment.consumers]
    with saying("reading the functions' logs"):
        found = read_retries(deployment, names, now)
    known = {name: one for name, one in found.items() if isinstance(one, Retries)}
    messages = [message for one in known.values() for message in one.messages]
    breakers = {name: one.breaker for name, one in known.items() if one.breaker}
    if as_json:
        shown = [{"consumer": name, **asdict(one)} for name, one in breakers.items()]
        terminal.print_json({"retrying": [*map(asdict, messages)], "open_breakers": shown})
    else:
        for name, pause in read_notes(deployment).pauses.items():
            terminal.console.print(f"{name} is {pause}", soft_wrap=True)
        _print(messages, breakers, now)
    faults = {name: one for name, one in found.items() if not isinstance(one, Retries)}
    if faults:
        told = "".join(f"\n  {name}: {error_with_remedy(one)}" for name, one in faults.items())
        raise OpsError(f"not all logs could be read:{told}")


def _print(
    messages: Sequence[RetryingMessage], breakers: Mapping[str, OpenBreaker], now: datetime
) -> None:
    say = partial(terminal.console.print, soft_wrap=True)
    for name, breaker in breakers.items():
        say(f"{name}: {breaker}")
    if not messages:
        say("no message is under retry")
        return
    columns = ("consumer", "event", "error", ">receives", ">left", ">next", ">failing for", "key")
    table = terminal.table(*columns)
    for one in messages[:_MAX_SHOWN]:
        left = terminal.UNKNOWN if one.receives_left is None else str(one.receives_left)
        failing = terminal.format_age(now - one.failing_since)
        table.add_row(
            one.consumer,
            one.event_type or terminal.UNKNOWN,
            one.error,
            str(one.receives),
            left,
            next_text(one, now),
            failing,
            (one.key_hash or one.message_id)[:12],
        )
    terminal.console.print(table)
    if (more := len(messages) - _MAX_SHOWN) > 0:
        say(f"and {more} more: --json has them all")
    say(f"what to do: {explained_by('messages-retried')}")


def next_text(message: RetryingMessage, now: datetime) -> str:
    """Return when a message is attempted again, such as `in 4 min`."""
    if message.next_attempt is None:
        return terminal.UNKNOWN
    if message.next_attempt < now + timedelta(seconds=1):
        return "now"
    return f"in {terminal.format_age(message.next_attempt - now)}"
