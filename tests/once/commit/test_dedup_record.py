"""The dedup record: its window, its look-up, its cause, pending effects and sequence items."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from msgspec.structs import replace

from once.commit.dedup_record import read_records, record_put
from once.commit.result import BUSY, COMMITTED, CONTENDED, DUPLICATE, CommitOutcome, CommitResult
from once.effects.ledger import Intent
from once.errors import KeyConflict, OutcomeUnknown, RequestRefused, Throttled
from once.events.identity import RULES
from once.events.outgoing import draft, written
from once.names import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS, SEQUENCE, Record, Standing
from once.testing import FakeAws, inject, never_sent
from once.transaction import Identity, Transaction
from tests.in_memory import Start
from tests.once.support import SETTINGS, Bench, Note, amounts, consumer_of, event_of, facts, note

THEN = 1_800_000_000
WINDOW = 86_400
END = THEN + WINDOW + CLOCK_MARGIN_SECONDS

MOMENTS = [
    pytest.param(THEN - 3600, DUPLICATE, id="on a slow clock"),
    pytest.param(THEN + WINDOW + 2 * CLOCK_SKEW_SECONDS, DUPLICATE, id="as clocks differ most"),
    pytest.param(END + 0.9, DUPLICATE, id="in the margin's last second"),
    pytest.param(END + 1, None, id="past the margin"),
]


@pytest.fixture
def then(start: Start) -> Bench:
    """A bench with a committed event."""
    bench = Bench(start(dedup_window_seconds=WINDOW))
    bench.aws.time = THEN
    assert bench.commit(bench.counting()) == [COMMITTED]
    return bench


@pytest.mark.parametrize(("now", "expected"), MOMENTS)
def test_condition_and_look_up_expire_a_key_after_the_margin(
    then: Bench, now: float, expected: CommitResult | None
) -> None:
    then.aws.time = now
    with inject(then.client, "TransactWriteItems", never_sent()):
        assert then.commit(then.counting()) == [expected or BUSY]
    assert then.commit(then.counting()) == [expected or COMMITTED]
    assert amounts(then.aws) == {"a": 1 if expected else 2}


def test_an_expired_key_is_taken_by_a_new_event_for_a_window_of_its_own(then: Bench) -> None:
    then.aws.time = END + 1
    assert then.commit(then.counting(fingerprint="other")) == [COMMITTED]
    [record] = then.aws.items("dedup")
    assert record["fingerprint"] == "other"
    assert record["expires_at"] == END + 1 + WINDOW
    then.aws.time = END + WINDOW
    assert then.commit(then.counting(fingerprint="other")) == [DUPLICATE]


# Look-up of dedup records: an answer for each key, or an error.


PKS: list[Any] = [{"pk": {"S": "a"}}, {"pk": {"S": "b"}}]
RECORDS: list[Any] = [key | {"commit": {"S": "c"}} for key in PKS]
DENIED = ClientError({"Error": {"Code": "AccessDeniedException"}}, "BatchGetItem")


class Database:
    """A client with these answers, one after the other; an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self._answers = iter(answers)
        self.requested: list[Any] = []

    def batch_get_item(self, RequestItems: Any) -> Any:  # noqa: N803
        self.requested.append(RequestItems["dedup"]["Keys"])
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look_up(self, *pks: str) -> dict[str, Any]:
        return read_records(self, "dedup", pks)  # type: ignore[arg-type]


def throttled(*keys: Any) -> dict[str, Any]:
    """An answer without the table, and with these keys unprocessed."""
    return {"Responses": {}, "UnprocessedKeys": {"dedup": {"Keys": [*keys]}}}


def test_no_keys_make_no_request() -> None:
    assert Database().look_up() == {}


def test_unprocessed_keys_are_requested_again() -> None:
    database = Database(throttled(*PKS), {"Responses": {"dedup": RECORDS}, "UnprocessedKeys": {}})
    assert database.look_up("a", "b") == {"a": RECORDS[0], "b": RECORDS[1]}
    assert database.requested == [PKS, PKS]


def test_after_three_answers_without_capacity_a_read_is_throttled() -> None:
    database = Database(*[throttled(PKS[1])] * 4)
    with pytest.raises(Throttled, match="throttled a read of the table dedup"):
        database.look_up("a", "b")
    assert database.requested == [PKS, PKS[1:], PKS[1:]]


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (DENIED, "ClientError AccessDeniedException"),
        (ReadTimeoutError(endpoint_url="x"), "ReadTimeoutError"),
    ],
)
def test_an_error_is_an_unknown_outcome_that_names_it(error: Exception, named: str) -> None:
    with pytest.raises(OutcomeUnknown, match=f"^no answer, and no record: {named}"):
        Database(error).look_up("a")


# Pending records: the effect has begun, and only its owner may complete the record.


NOW = 1_800_000_000
INTENT = Intent(
    effect="charge",
    provider_key="once-h-charge-1",
    request=b"{}",
    key_expires_at=None,
    owner="owner",
    lease_until=(NOW + 30) * 1000,
    standing=Standing.IN_FLIGHT,
)
PENDING = CommitResult(CommitOutcome.PENDING, intent=INTENT, since=NOW * 1000)


def opening(bench: Bench, *, owner: str = "another", fingerprint: str = "f") -> Transaction:
    tx = bench.transaction(fingerprint=fingerprint)
    tx.intent = replace(INTENT, owner=owner)
    return tx


def completing(bench: Bench, *, owner: str = "owner") -> Transaction:
    tx = bench.counting()
    tx.owned = replace(INTENT, owner=owner)
    return tx


@pytest.fixture
def begun(bench: Bench) -> Bench:
    """A bench with a pending record."""
    bench.aws.time = NOW
    assert bench.commit(opening(bench, owner="owner")) == [COMMITTED]
    return bench


@pytest.mark.parametrize("seconds", [0, NOW])
def test_another_delivery_finds_the_intent_however_late(begun: Bench, seconds: int) -> None:
    begun.aws.time = NOW + seconds
    again = opening(begun)
    assert begun.commit(again) == [PENDING]
    assert begun.committer.look_up([again]) == [PENDING]


def test_other_content_under_its_key_is_a_key_conflict(begun: Bench) -> None:
    [result] = begun.commit(opening(begun, fingerprint="other"))
    assert isinstance(result.cause, KeyConflict)


@pytest.mark.parametrize("owner", ["owner", "another"])
def test_its_owner_completes_it_once(begun: Bench, owner: str) -> None:
    assert begun.commit(completing(begun)) == [COMMITTED]
    [record] = begun.aws.items("dedup")
    assert (record["state"], record["provider_key"]) == ("done", "once-h-charge-1")
    assert "owner" not in record
    assert begun.commit(completing(begun, owner=owner)) == [DUPLICATE]
    assert amounts(begun.aws) == {"a": 1}


def test_an_overtaken_owner_finds_the_intent_and_changes_nothing(begun: Bench) -> None:
    assert begun.commit(completing(begun, owner="another")) == [PENDING]
    assert amounts(begun.aws) == {}


def test_a_completion_that_did_not_arrive_is_retried(begun: Bench) -> None:
    mine, other = completing(begun), completing(begun, owner="another")
    with inject(begun.client, "TransactWriteItems", never_sent(), never_sent()):
        assert begun.commit(mine) == [CONTENDED]
        assert begun.commit(other) == [PENDING]
    assert begun.commit(mine) == [COMMITTED]


def test_a_completion_of_a_deleted_record_is_refused(begun: Bench) -> None:
    begun.client.delete_item(TableName="dedup", Key={"pk": {"S": "notes#a"}})
    [result] = begun.commit(completing(begun))
    assert isinstance(result.cause, RequestRefused)
    assert str(result.cause) == "the effect's record is gone: it will be begun anew"
    assert amounts(begun.aws) == {}


# Cause: an event names the record that published it, and the next record keeps that name.


INBOUND = "notes#event#/s#e"


def cause_of(source: str, extensions: dict[str, Any]) -> Any:
    """The cause in the record of an event."""
    tx = Transaction(
        event_of(source=source, extensions=extensions),
        Identity("notes#e", "f"),
        SETTINGS,
        read=lambda table, key: None,
    )
    tx.commit_id = "c"
    return record_put(tx, SETTINGS, 0)["Put"]["Item"].get(Record.CAUSE)


def test_the_event_of_a_consumer_names_its_record_and_the_next_record_keeps_it() -> None:
    [event] = json.loads(
        written([draft("noted", {}, None)], inbound=event_of(), pk=INBOUND, consumer="notes", now=0)
    )
    assert cause_of(event["source"], {"oncecause": event["oncecause"]}) == {"S": INBOUND}


@pytest.mark.parametrize(
    ("source", "extensions"),
    [("/shop", {"oncecause": INBOUND}), ("/once/notes", {}), ("/once/notes", {"oncecause": 7})],
    ids=["a producer's", "none", "no text"],
)
def test_the_record_of_any_other_event_has_no_cause(
    source: str, extensions: dict[str, Any]
) -> None:
    assert cause_of(source, extensions) is None


# Sequence items: one for each message group of a commit, and never two commits at once on one.


GROUPS = {"counted": "name", "seen": "name"}


def publishing(event: Note, tx: Transaction) -> None:
    """Publish, for each word of the name, an ordered event of its group and one without order."""
    for name in event.name.split():
        tx.publish("counted", {"name": name, "amount": event.amount})
        tx.publish("seen", {"name": name})


@pytest.fixture
def aws(start: Start) -> FakeAws:
    return start(
        consumer_of(publishing),
        publishes=("counted", "seen"),
        groups=GROUPS,
        ordered_types=("counted",),
    )


def stored_items(aws: FakeAws) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The dedup records, and the sequence items by message group."""
    items = aws.items("dedup")
    sequences = {each["pk"]: each for each in items if "dedup_key" in each}
    groups = {pk.removeprefix("notes#sequence#"): one for pk, one in sequences.items()}
    return [each for each in items if "dedup_key" not in each], groups


def outbox(item: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(event["type"], event["data"]["name"]) for event in json.loads(item["outbox"])]


def test_a_commit_writes_its_ordered_events_into_an_item_of_each_group(aws: FakeAws) -> None:
    aws.deliver(note("a b a"))
    [[record], sequences] = stored_items(aws)
    assert outbox(record) == [(kind, name) for name in "aba" for kind in ("counted", "seen")]
    assert record["sequenced"] == {"counted"}
    assert {group: outbox(item) for group, item in sequences.items()} == {
        "a": [("counted", "a")] * 2,
        "b": [("counted", "b")],
    }
    for item in sequences.values():
        assert item["dedup_key"] == record["pk"]
        assert item["expires_at"] == record["expires_at"]


def test_messages_with_one_outgoing_group_commit_in_requests_of_their_own(aws: FakeAws) -> None:
    requests: list[int] = []
    aws.runtime.dynamodb.meta.events.register(
        "provide-client-params.dynamodb.TransactWriteItems",
        lambda params, **_: requests.append(len(params["TransactItems"])),
    )
    assert aws.deliver(note("a", 1), note("a", 2), note("b"))["batchItemFailures"] == []
    assert requests == [4, 2]
    records, sequences = stored_items(aws)
    assert len(records) == 3
    assert json.loads(sequences["a"]["outbox"])[0]["data"]["amount"] == 2


@pytest.mark.parametrize("kind", ["counted", "seen"])
def test_data_without_the_group_is_refused_before_the_commit(start: Start, kind: str) -> None:
    aws = start(
        consumer_of(lambda event, tx: tx.publish(kind, {"name": " "})),
        publishes=tuple(GROUPS),
        groups=GROUPS,
        ordered_types=("counted",),
    )
    aws.deliver(note(), fails=True)
    assert aws.items("dedup") == []
    [dead_letter] = aws.dead_letters()
    assert facts(dead_letter)["reason"] == "invalid-write"
    assert "its message group is the field 'name'" in facts(dead_letter)["error"]


def test_each_group_counts_among_the_hundred_actions(aws: FakeAws) -> None:
    names = " ".join(f"n{n}" for n in range(100))
    aws.deliver(note(names.rpartition(" ")[0]), note(names), fails=True)
    assert len(stored_items(aws)[1]) == 99
    [dead_letter] = aws.dead_letters()
    error = facts(dead_letter)["error"]
    assert "read counts as one, and so does each message group of ordered events" in error


def test_the_key_of_a_sequence_item_is_no_dedup_key() -> None:
    assert SEQUENCE not in RULES
