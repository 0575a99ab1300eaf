"""Former records: how they decide a commit, and the switch from a function with Powertools."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from time import time
from typing import Any, NamedTuple

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from msgspec.structs import replace

from once.business_tables import Table
from once.consumer import Consumer
from once.errors import PermanentError, RegistrationError
from once.former_records import FormerRecords
from once.settings import Dedup
from once.testing import FakeAws, FakeContext
from once.transaction import Transaction
from tests.once.effects.provider import SETTINGS, Provider, Till
from tests.once.effects.provider import consumer_of as paying
from tests.once.support import (
    Function,
    Killed,
    Note,
    SoldOut,
    amounts,
    calls,
    count,
    event_of,
    failures,
    invoke,
    note,
    reasons,
    record,
)

TABLES = {"counters": "name", "idempotency": "id"}
PREFIX = "notes-fn.tests.once.commit.test_former_records.FormerFunction.deliver.<locals>.process"


def consumer_after_powertools(
    function: Function = count, *, former: bool = True, value: Callable[[Any], Any] | None = None
) -> Consumer:
    consumer = Consumer("notes")
    consumer.table("counters")
    records = FormerRecords.powertools(
        consumer.table("idempotency"), prefix=PREFIX, value=value or (lambda event: event.id)
    )
    consumer.handles("noted", Note, former=records if former else None)(function)
    consumer.rejects(SoldOut)(lambda event, refusal, tx: None)
    return consumer


class FormerFunction:
    """The function that Once replaces. It counts by a plain write, between two of Powertools'.

    Attributes:
        changes: the changes that it made.
        between: called at each of its four points: before its record, before and after its change,
            and after its record is completed.
    """

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self._store = DynamoDBPersistenceLayer("idempotency", boto3_client=aws.dynamodb)
        self.changes = 0
        self.between: Callable[[int], None] = lambda point: None

    def deliver(self, event: dict[str, Any], *, lease_ms: int = 60_000) -> bool:
        """Deliver a message; return whether it was acknowledged."""
        config = IdempotencyConfig(event_key_jmespath="id")
        config.register_lambda_context(FakeContext(lease_ms))  # type: ignore[arg-type]

        def process(event: dict[str, Any]) -> None:
            self.between(1)
            self._aws.dynamodb.update_item(
                TableName="counters",
                Key={"name": {"S": event["data"]["name"]}},
                UpdateExpression="ADD amount :one",
                ExpressionAttributeValues={":one": {"N": "1"}},
            )
            self.changes += 1
            self.between(2)

        idempotent: Callable[..., None] = idempotent_function(
            process, data_keyword_argument="event", config=config, persistence_store=self._store
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_LAMBDA_FUNCTION_NAME", "notes-fn")
            try:
                self.between(0)
                idempotent(event=event)
                self.between(3)
            except (IdempotencyAlreadyInProgressError, Killed):
                return False
        return True


def end_lease(aws: FakeAws, event_id: str) -> None:
    """Set the end of an event's lease in the former store to a time that has passed."""
    found = aws.then("idempotency", former_key(event_id))
    if found and found["status"] == "INPROGRESS":
        aws.given("idempotency", found | {"in_progress_expiration": 1000})


IDEMPOTENCY = Table[Any]("idempotency")


def former_key(event_id: str) -> str:
    """Return the key of the former function's record."""
    former = consumer_after_powertools().handlers["noted"].former
    assert former is not None
    [key] = former.key(event_of(id=event_id)) or ()
    return key


def leave(aws: FakeAws, event_id: str, status: str, **lease: int) -> None:
    """Leave a record of the former function."""
    aws.given(
        "idempotency", {"id": former_key(event_id), "status": status, "expiration": 1, **lease}
    )


def fail(event: Note, tx: object) -> None:
    raise PermanentError("the former function has changed what this handler reads")


@pytest.mark.parametrize("receive_count", [1, 2])  # by the commit, and by a read before the handler
def test_a_group_is_decided_message_by_message(receive_count: int) -> None:
    with FakeAws(consumer_after_powertools(), TABLES) as aws:
        leave(aws, "done", "COMPLETED")
        leave(aws, "running", "INPROGRESS", in_progress_expiration=9_999_999_999_000)
        leave(aws, "ended", "INPROGRESS", in_progress_expiration=1000)
        leave(aws, "no lease", "INPROGRESS")
        names = ("done", "running", "new", "ended", "no lease")
        with calls(aws.runtime.sqs) as made:
            notes = [note(name, event_id=name) for name in names]
            answer = aws.deliver(*notes, receive_count=receive_count, fails=True)
        [delay] = [request for name, request in made if name == "ChangeMessageVisibility"]
        assert delay["VisibilityTimeout"] == 15 * 60  # until the lease ends, and at most this
        assert len(failures(answer)) == 1  # the running one
        assert amounts(aws) == {"new": 1}
        assert reasons(aws) == ["former-unfinished"] * 2


@pytest.mark.parametrize("receive_count", [1, 5])
def test_a_handler_that_fails_on_what_was_processed_is_a_duplicate(receive_count: int) -> None:
    with FakeAws(consumer_after_powertools(fail), TABLES) as aws:
        leave(aws, "done", "COMPLETED")
        answer = aws.deliver(note(event_id="done"), receive_count=receive_count)
        assert failures(answer) == []
        assert reasons(aws) == []


def test_events_that_share_a_former_record_are_not_lost() -> None:
    with FakeAws(consumer_after_powertools(value=lambda event: "same"), TABLES) as aws:
        aws.deliver(note("a", event_id="a"), note("b", event_id="b"), fails=True)
        assert amounts(aws) == {"a": 1}
        assert reasons(aws) == ["invalid-write"]
        aws.deliver(note("a", event_id="a"))  # a duplicate of the first
        assert reasons(aws) == []


def test_a_record_of_once_is_forgotten_with_the_dedup_record() -> None:
    with FakeAws(consumer_after_powertools(), TABLES) as aws:
        for day in (0, 60):
            aws.time = 1_700_000_000 + day * 86400
            aws.deliver(note(event_id="e"))
        assert amounts(aws) == {"a": 2}
        assert reasons(aws) == []


def test_ordered_events_and_the_former_record_are_in_one_commit() -> None:
    consumer = consumer_after_powertools(lambda event, tx: tx.publish("counted", {"name": "a"}))
    with FakeAws(
        consumer,
        TABLES,
        publishes=("counted",),
        groups={"counted": "name"},
        ordered_types=("counted",),
    ) as aws:
        aws.deliver(note(event_id="e"))
        former = FormerFunction(aws)
        assert former.deliver(note(event_id="e"))
        assert former.changes == 0
        assert len(aws.items("dedup")) == 2  # the dedup record and the sequence item


def sold_out(event: Note, tx: Transaction) -> None:
    raise SoldOut


def written_over(event: Note, tx: Transaction) -> None:
    tx.delete(IDEMPOTENCY, {"id": former_key("e")})


def test_a_refusal_takes_the_former_record() -> None:
    with FakeAws(consumer_after_powertools(sold_out), TABLES) as aws:
        aws.deliver(note(event_id="e"))
        assert FormerFunction(aws).deliver(note(event_id="e"))
        assert amounts(aws) == {}


def test_an_effect_takes_the_former_record_with_its_intent(provider: Provider) -> None:
    consumer = paying(provider)
    consumer.table("idempotency")
    [handler] = consumer.handlers.values()
    former = consumer_after_powertools().handlers["noted"].former
    consumer.handlers["noted"] = replace(handler, former=former)
    with FakeAws(consumer, TABLES, **SETTINGS) as aws:
        till = Till(aws, consumer, provider)
        aws.time = time()  # Powertools reads the clock
        event = till.leave_pending(note(event_id="e"))
        assert FormerFunction(aws).deliver(event)
        till.later()
        assert till.deliver(event, receive_count=2)
        till.assert_paid_once(calls=2)


def test_a_handler_cannot_write_the_former_record() -> None:
    with FakeAws(consumer_after_powertools(written_over), TABLES) as aws:
        aws.deliver(note(event_id="e"), fails=True)
        assert reasons(aws) == ["invalid-write"]


def test_a_key_must_fit_its_table() -> None:
    with FakeAws(consumer_after_powertools(), {**TABLES, "idempotency": ("id", "sk")}) as aws:
        aws.deliver(note(event_id="e"), fails=True)
        aws.deliver(note(event_id="e"), note(event_id="f"), receive_count=2, fails=True)
        assert reasons(aws) == ["invalid-write"] * 3


def test_item_dedup_has_no_place_for_it() -> None:
    consumer = consumer_after_powertools()
    consumer.tables = {"counters"}
    aws = FakeAws(consumer, {"counters": "name"}, dedup=Dedup.ITEM)
    with aws, pytest.raises(RegistrationError, match="former="):
        aws.deliver(note())


@pytest.mark.parametrize("value", ["o-1", 7, ["/shop", "o-1"], {"b": 1, "a": [True, None]}, "ü"])
@pytest.mark.parametrize("hash_function", ["md5", "sha256"])
def test_the_keys_are_those_of_powertools(
    value: Any, hash_function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders-fn")
    with FakeAws(consumer_after_powertools(), TABLES) as aws:
        store = DynamoDBPersistenceLayer(
            "idempotency", sort_key_attr="sk", boto3_client=aws.dynamodb
        )
    config = IdempotencyConfig(event_key_jmespath="data.key", hash_function=hash_function)
    store.configure(config, "app.place")
    former = FormerRecords.powertools(
        IDEMPOTENCY,
        prefix="orders-fn.app.place",
        value=lambda event: event.data["key"],
        hash_function=hash_function,
        partition="idempotency#orders-fn",
    )
    key = store._get_hashed_idempotency_key({"data": {"key": value}})
    expected = store._get_key(key or "")
    assert former.key(event_of({"key": value})) == tuple(part["S"] for part in expected.values())


# The switch from Powertools: both functions get one event, in each order and with each crash.


FORMER, ONCE, LEASE_ENDS = "former", "once", "lease ends"
AFTER = ((ONCE, FORMER), (LEASE_ENDS, ONCE, FORMER, ONCE))


class Schedule(NamedTuple):
    """A delivery to the former function, and the steps during and after it.

    Attributes:
        point: where `meanwhile` takes place; see `FormerFunction.between`.
        killed_at: the point at which the former function ends; None if it does not.
    """

    point: int
    meanwhile: str | None
    killed_at: int | None
    after: tuple[str, ...]


class Ending(NamedTuple):
    """The changes of both functions, the reasons of dead letters, and the last acknowledgement."""

    by_former: int
    by_once: int
    dead_letters: list[str]
    acknowledged: bool


def schedules(after: tuple[str, ...]) -> Iterator[Schedule]:
    meanwhile = ((0, None), *product(range(4), (FORMER, ONCE)))
    for (point, step), killed_at in product(meanwhile, (None, 1, 2)):
        if killed_at is None or point <= killed_at:
            yield Schedule(point, step, killed_at, after)


class Switch:
    """The former function and a consumer, which both receive the event with this name."""

    def __init__(
        self, aws: FakeAws, function: FormerFunction, once: Consumer, schedule: Schedule, name: str
    ) -> None:
        self._aws, self._function, self._once, self._schedule = aws, function, once, schedule
        self._name, self._event = name, note(name, event_id=name)
        function.changes = 0
        self._acknowledged = False

    def play(self) -> Ending:
        """Play the schedule."""
        self._function.between = self._between
        self._take(FORMER)
        for step in self._schedule.after:
            self._take(step)
        by_former = self._function.changes
        counter = self._aws.then("counters", self._name) or {"amount": 0}
        by_once = int(counter["amount"]) - by_former
        return Ending(by_former, by_once, reasons(self._aws), self._acknowledged)

    def _between(self, point: int) -> None:
        schedule, hook = self._schedule, self._function.between
        self._function.between = lambda point: None  # later deliveries are not disturbed
        if schedule.meanwhile and schedule.point == point:
            self._take(schedule.meanwhile)
        if schedule.killed_at == point:
            raise Killed
        if point < 3:
            self._function.between = hook

    def _take(self, step: str) -> None:
        if step == FORMER:
            self._acknowledged = self._function.deliver(self._event)
        elif step == ONCE:
            message = record(json.dumps(self._event), self._name)
            self._acknowledged = invoke(self._aws, self._once, message) == []
        else:
            end_lease(self._aws, self._name)


def endings(after: tuple[str, ...], *, former: bool = True) -> Iterator[tuple[Schedule, Ending]]:
    once = consumer_after_powertools(former=former)
    with FakeAws(once, TABLES) as aws:
        function = FormerFunction(aws)
        for number, schedule in enumerate(schedules(after)):
            yield schedule, Switch(aws, function, once, schedule, f"e-{number}").play()


@pytest.mark.parametrize("after", AFTER, ids=", ".join)
def test_one_function_changes_the_data_and_no_event_is_lost(after: tuple[str, ...]) -> None:
    for schedule, end in endings(after):
        assert end.by_once <= 1, schedule
        assert not (end.by_former and end.by_once), schedule
        settled = end.by_former or end.by_once or end.dead_letters == ["former-unfinished"]
        assert settled or not end.acknowledged, schedule
        # The former function repeats its work when its lease ended, as it did before the switch.
        assert end.by_former <= 1 or (schedule.killed_at == 2 and LEASE_ENDS in after), schedule


def test_without_the_former_records_both_functions_change_the_data() -> None:
    assert any(end.by_former and end.by_once for _, end in endings(AFTER[0], former=False))
