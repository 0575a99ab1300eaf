"""Former records: how they decide a commit, a group and a look-up, and how a commit takes them."""

from dataclasses import replace
from time import time
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
)

from once import FormerRecords
from once.errors import PermanentError, RegistrationError
from once.settings import Dedup
from once.testing import FakeAws
from once.transaction import Table, Transaction
from tests.once.effects.provider import SETTINGS, Provider, Till
from tests.once.effects.provider import consumer_of as paying
from tests.once.former import TABLES, FormerFunction, consumer_after_powertools
from tests.once.support import Note, SoldOut, amounts, calls, event_of, failures, note, reasons

IDEMPOTENCY = Table("idempotency")


def former_key(event_id: str) -> str:
    """Return the key of the former function's record."""
    former = consumer_after_powertools().handlers["noted"].former
    assert former is not None
    [key] = former.key(event_of(id=event_id)) or ()
    return key


def leave(aws: FakeAws, event_id: str, status: str, **lease: int) -> None:
    """Leave a record of the former function."""
    aws.put("idempotency", {"id": former_key(event_id), "status": status, "expiration": 1, **lease})


def fail(event: Note, tx: object) -> None:
    raise PermanentError("the former function has changed what this handler reads")


def test_a_group_is_decided_message_by_message() -> None:
    with FakeAws(consumer_after_powertools(), TABLES) as aws:
        leave(aws, "done", "COMPLETED")
        leave(aws, "running", "INPROGRESS", in_progress_expiration=9_999_999_999_000)
        leave(aws, "ended", "INPROGRESS", in_progress_expiration=1000)
        leave(aws, "no lease", "INPROGRESS")
        names = ("done", "running", "new", "ended", "no lease")
        with calls(aws.runtime.sqs) as made:
            answer = aws.deliver(*[note(name, event_id=name) for name in names], fails=True)
        [delay] = [request for name, request in made if name == "ChangeMessageVisibility"]
        assert delay["VisibilityTimeout"] == 15 * 60  # until the lease ends, and at most this
        assert len(failures(answer)) == 1  # the running one
        assert amounts(aws) == {"new": 1}
        assert reasons(aws) == ["former-unfinished"] * 2


@pytest.mark.parametrize("receive_count", [1, 2, 3, 5])
def test_a_handler_that_fails_on_what_was_processed_is_a_duplicate(receive_count: int) -> None:
    with FakeAws(consumer_after_powertools(fail), TABLES) as aws:
        leave(aws, "done", "COMPLETED")
        answer = aws.deliver(note(event_id="done"), receive_count=receive_count)
        assert failures(answer) == []
        assert reasons(aws) == []


def test_a_person_decides_on_what_the_former_function_left() -> None:
    with FakeAws(consumer_after_powertools(), TABLES) as aws:
        for name in ("changed", "unchanged"):
            leave(aws, name, "INPROGRESS", in_progress_expiration=1000)
            aws.deliver(note(name, event_id=name), fails=True)
        assert reasons(aws) == ["former-unfinished"] * 2
        leave(aws, "changed", "COMPLETED")
        for item in aws.items("idempotency"):
            if item["status"] == "INPROGRESS":
                aws.dynamodb.delete_item(TableName="idempotency", Key={"id": {"S": item["id"]}})
        redriven = aws.deliver(*[note(name, event_id=name) for name in ("changed", "unchanged")])
        assert failures(redriven) == []
        assert amounts(aws) == {"unchanged": 1}


def test_events_that_share_a_former_record_are_not_lost() -> None:
    with FakeAws(consumer_after_powertools(value=lambda event: "same"), TABLES) as aws:
        aws.deliver(note("a", event_id="a"), note("b", event_id="b"), fails=True)
        assert amounts(aws) == {"a": 1}
        assert reasons(aws) == ["invalid-write"]
        aws.deliver(note("a", event_id="a"))  # a duplicate of the first
        assert reasons(aws) == []


def test_an_event_without_a_former_record_commits_alone() -> None:
    with FakeAws(consumer_after_powertools(value=lambda event: None), TABLES) as aws:
        aws.deliver(note(event_id="e"))
        assert amounts(aws) == {"a": 1}
        assert aws.items("idempotency") == []


def test_a_record_of_once_is_forgotten_with_the_dedup_record() -> None:
    with FakeAws(consumer_after_powertools(), TABLES) as aws:
        for day in (0, 60):
            aws.time = 1_700_000_000 + day * 86400
            aws.deliver(note(event_id="e"))
        assert amounts(aws) == {"a": 2}
        assert reasons(aws) == []


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
