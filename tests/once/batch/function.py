"""A consumer's function on AWS in memory: its batches, their faults, and the requests it sends."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from msgspec.json import decode, encode

from once.errors import PermanentError, RetryableError
from once.testing import FakeContext, Fault, cancelled, inject
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    Call,
    Killed,
    Log,
    Note,
    SoldOut,
    amounts,
    calls,
    consumer_of,
    count,
    die,
    failures,
    note,
    process,
    reasons,
    record,
    redriven,
)

WRITE, READ = "TransactWriteItems", "BatchGetItem"
SECOND: Any = {"receive_count": 2}
THIRD: Any = {"receive_count": 3}
LAST: Any = {"receive_count": 5}
SPENT: Any = {"receive_count": 6}

Entries = Sequence[Mapping[str, Any]]
Choose = Callable[[Entries], Fault | None]


def message(
    name: str,
    event_id: str | None = None,
    *,
    amount: int = 1,
    message_id: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A message. The event's id defaults to the counter's name, the message's id to the event's."""
    event_id = event_id or name
    return record(json.dumps(note(name, amount, event_id)), message_id or event_id, **more)


def batch_of(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [message(name, **more) for name in names]


def events(entries: Entries) -> list[str]:
    """The ids of the events whose dedup records a request writes."""
    return [event for entry in entries if (event := _event(entry)) is not None]


def items(entries: Entries) -> list[str]:
    """The items that a request is about, the dedup records among them."""
    return [f"{table} {name}" for table, name in map(_item, entries)]


@contextmanager
def faults(client: Any, writes: Choose | Sequence[Fault | None]) -> Iterator[None]:
    """Let requests that commit meet faults: chosen for each, or the next ones in this order."""
    chosen = writes if callable(writes) else None
    with inject(client, WRITE, *(() if callable(writes) else writes)) as waiting:

        def prepare(params: dict[str, Any], **_: Any) -> None:
            if chosen is not None:
                waiting.append(chosen(decode(encode(params["TransactItems"]))))

        event = f"provide-client-params.dynamodb.{WRITE}"
        client.meta.events.register(event, prepare)
        try:
            yield
        finally:
            client.meta.events.unregister(event, prepare)
    assert chosen or waiting == []


def cancelling(codes: Mapping[str, str], *, times: int = 1) -> Choose:
    """Cancel requests for the write of each of these events, as often as `times` for each.

    Args:
        codes: the code of the cancellation reason, by the event's id.
        times: how many requests are cancelled for one event.
    """
    left = dict.fromkeys(codes, times)

    def choose(entries: Entries) -> Fault | None:
        failing = {event for event in events(entries) if left.get(event, 0) > 0}
        reasons = ["None"] * len(entries)
        for position, entry in enumerate(entries):
            if (event := _event(entry)) in failing:
                reasons[position + 1] = codes[str(event)]  # the write after the dedup record
        for event in failing:
            left[event] -= 1
        return cancelled(*reasons) if failing else None

    return choose


def _item(entry: Mapping[str, Any]) -> tuple[str, str]:
    [action] = entry.values()
    key = action.get("Key") or action["Item"]
    return action["TableName"], key["pk" if "pk" in key else "name"]["S"]


def _event(entry: Mapping[str, Any]) -> str | None:
    table, pk = _item(entry)
    return pk.rpartition("#")[2] if table == "dedup" else None


# A consumer's function on AWS in memory, and the requests that each of its invocations sends.


ISOLATION_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/isolation"
ISOLATION_ARN = "arn:aws:sqs:us-east-1:123456789012:isolation"

NONE: list[str] = []
Make = Callable[..., "Function"]


def isolated_again(sent: dict[str, Any], receive_count: int = 1) -> dict[str, Any]:
    """A message of the isolation queue as Lambda hands it to the function."""
    return record(
        sent["Body"],
        sent["MessageId"],
        receive_count=receive_count,
        messageAttributes=redriven(sent),
        eventSourceARN=ISOLATION_ARN,
    )


class FatalNote(Note, frozen=True):
    """A note that ends the function while it is read, if its name says so."""

    def __post_init__(self) -> None:
        if self.name.startswith("fatal"):
            die()


def handle(event: Note, tx: Transaction) -> None:
    """Do what the first word of the counter's name says; by default, count."""
    item = {"name": event.name, "amount": 1}
    unmet: Any = {"condition": "attribute_exists(amount)"}
    match event.name.split()[0]:
        case "fail":
            raise ValueError
        case "later":
            raise RetryableError
        case "poison":
            raise PermanentError
        case "refuse":
            raise SoldOut
        case "kill":
            die()
        case "sold":
            tx.put(COUNTERS, item, **unmet, otherwise=SoldOut())
        case "strict":
            tx.put(COUNTERS, item, **unmet)
        case "unsendable":
            tx.put(COUNTERS, {**item, "inner": {1: 2}})
        case "invalid":
            tx.update(COUNTERS, {"name": event.name}, "NO EXPRESSION")
        case _:
            count(event, tx)


def answer_refusal(event: Note, refusal: SoldOut, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": f"refused {event.name}", "amount": 0})


@dataclass(frozen=True)
class Run:
    """The message ids that an invocation reports, and its requests; None if it gives no answer."""

    reported: list[str] | None
    dynamodb: list[Call]
    sqs: list[Call]

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.dynamodb]

    @property
    def groups(self) -> list[list[str]]:
        """The ids of the events in each write, in order."""
        return [events(p["TransactItems"]) for name, p in self.dynamodb if name == WRITE]

    @property
    def sizes(self) -> list[int]:
        return [len(group) for group in self.groups]

    @property
    def asked(self) -> list[list[str]]:
        """The ids of the events whose records each read asks for."""
        tables = [p["RequestItems"]["dedup"] for name, p in self.dynamodb if name == READ]
        return [[key["pk"]["S"].rpartition("#")[2] for key in t["Keys"]] for t in tables]

    @property
    def deleted(self) -> list[str]:
        """The ids of the messages that the function deletes itself."""
        batches = [p["Entries"] for name, p in self.sqs if name == "DeleteMessageBatch"]
        handles = [entry["ReceiptHandle"] for entries in batches for entry in entries]
        return [handle.removeprefix("handle-of-") for handle in handles]

    @property
    def delays(self) -> dict[str, int]:
        """The visibility timeouts that were set, by message id."""
        return {
            p["ReceiptHandle"].removeprefix("handle-of-"): p["VisibilityTimeout"]
            for name, p in self.sqs
            if name == "ChangeMessageVisibility"
        }


class Function:
    """A consumer's function. Each invocation is a cold start, unless it is kept warm.

    Args:
        start: starts AWS in memory.
        handler: the handler of the only event type.
        isolation: whether the consumer has an isolation queue.
        settings: fields of `Settings`.

    Attributes:
        handled: the names that the handler was called with, in order.
        isolation: whether the consumer has an isolation queue.
        context: the context of each invocation.
    """

    def __init__(
        self,
        start: Start,
        handler: Callable[[Note, Transaction], None] = handle,
        *,
        isolation: bool = False,
        **settings: Any,
    ) -> None:
        def note_and_handle(event: Note, tx: Transaction) -> None:
            self.handled.append(event.name)
            handler(event, tx)

        self.handled: list[str] = []
        self.isolation = isolation
        self.context = FakeContext()
        self.consumer = consumer_of(note_and_handle, model=FatalNote)
        self.consumer.rejects(SoldOut)(answer_refusal)
        url = {"isolation_queue_url": ISOLATION_URL} if isolation else {}
        self.aws = start(self.consumer, **url, **settings)
        if isolation:
            self.aws.sqs.create_queue(QueueName="isolation")
        self._warm: Callable[..., Any] | None = None

    def keep_warm(self) -> None:
        """Serve all later invocations by one instance."""
        self._warm = self.consumer.bound_to(self.aws.runtime)

    def run(
        self,
        *batch: Mapping[str, Any],
        reports: list[str] | None = NONE,
        writes: Choose | Sequence[Fault | None] = (),
        reads: Sequence[Fault | None] = (),
    ) -> Run:
        """Work on a batch.

        Args:
            batch: the records.
            reports: the message ids that the answer must name; None if there must be no answer, and
                `unittest.mock.ANY` if it is not known.
            writes: the faults of the requests that commit, all of which must occur.
            reads: those of the requests that look up dedup records.
        """
        runtime, reported = self.aws.runtime, None
        with (
            faults(runtime.dynamodb, writes),
            inject(runtime.dynamodb, READ, *reads) as unread,
            calls(runtime.dynamodb) as made,
            calls(runtime.sqs) as sent,
            suppress(Killed),
            process(runtime),
        ):
            handler = self._warm or self.consumer.bound_to(runtime)
            answer = handler({"Records": list(batch)}, self.context)
            reported = failures(answer)
            assert answer == {"batchItemFailures": [{"itemIdentifier": m} for m in reported]}
        assert unread == []
        assert reported == reports
        return Run(reported, made, sent)

    def seed(self, *names: str) -> None:
        """Let events be committed, and forget that they were handled."""
        self.run(*batch_of(*names))
        self.handled.clear()

    @property
    def amounts(self) -> dict[str, int]:
        return amounts(self.aws)

    def reasons(self) -> list[str]:
        """Take the dead letters, and return their reasons."""
        return reasons(self.aws)

    def isolated(self) -> list[dict[str, Any]]:
        """Take the messages out of the isolation queue."""
        return self.aws._receive(ISOLATION_URL)

    def isolated_names(self) -> list[str]:
        return [json.loads(sent["Body"])["data"]["name"] for sent in self.isolated()]


def fates(log: Log) -> dict[str, int]:
    """The number of messages of the only batch, by their disposition."""
    [line] = [line for line in log.lines() if line.get("message") == "batch"]
    found: dict[str, int] = line["fates"]
    return found
