"""Right and wrong handlers: for each the faults that find its bug, with kind and place, or none.

Each kind of bug has a handler that is right.
"""

import ast
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import psycopg2
import pytest

from lab.stores import postgres_store, servers
from lab.subjects import APPROACHES
from redelivery import (
    Answer,
    Fault,
    Kind,
    Method,
    NoVerdict,
    Report,
    Store,
    Subject,
    SubjectError,
    Table,
    child,
)
from redelivery.boundary import invocation
from redelivery.child import examine_in_child
from redelivery.examination import examine

from .support import wait_until

HERE, KIT = Path(__file__).parent / "handlers", Path(__file__).parents[1]
ORDER = {"order_id": "o-1", "customer": "c-1", "amount": 5}
OTHER = {"order_id": "o-2", "customer": "c-2", "amount": 7}
TABLES = [Table("orders", "order_id", compared=False), Table("totals", "customer")]
BOTH = [Table("orders", "order_id"), Table("totals", "customer")]
REQUESTS = {"orders": [{"PutRequest": {"Item": {"order_id": {"S": "o-1"}}}}]}
COMPARED = [Table("orders", "order_id")]
NOTIFICATION = {"Type": "Notification", "Message": json.dumps(ORDER)}
SOUND: tuple[Kind, ...] = ()
LOST, DOUBLED, OVERWRITTEN = (Kind.LOST,), (Kind.DOUBLED,), (Kind.OVERWRITTEN,)
STUCK, REFUSED = (Kind.STUCK,), (Kind.DEAD_LETTERED,)


def make_machine(kind: Any = "STANDARD") -> None:
    machine = {"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}}
    boto3.client("stepfunctions", region_name="us-east-1").create_state_machine(
        name="orders",
        definition=json.dumps(machine),
        roleArn="arn:aws:iam::123456789012:role/sfn",
        type=kind,
    )


def make_bus() -> None:
    boto3.client("events", region_name="us-east-1").create_event_bus(Name="shop")


@dataclass(frozen=True)
class Case:
    """A handler, with the kinds that each fault finds and the method that is called there."""

    handler: str
    found: dict[Fault, tuple[Kind, ...]]
    call: str = ""
    given: dict[str, Any] = field(default_factory=dict)

    def subject(self, **more: Any) -> Subject:
        given = {"events": [ORDER], "tables": TABLES, "key": "order_id", **self.given, **more}
        return Subject(f"right_and_wrong.{self.handler}", root=HERE, **given)


KINDS = [
    {**ORDER, "kind": "placed"},
    {"kind": "noted", "note_id": "n-1"},
    {**OTHER, "kind": "refunded"},
]
SEVERAL = {"events": KINDS, "key": "", "tables": BOTH}
OF_ONE_FORM = [
    {**ORDER, "kind": "placed"},
    {**OTHER, "kind": "placed"},
    {**ORDER, "order_id": "o-3", "kind": "refunded"},
]
TRANSFER = {"transfer_id": "t-1", "source": "a-1", "target": "a-2", "amount": 5}
HELD: list[dict[str, Any]] = [{"id": name, "balance": 100, "done": {}} for name in ("a-1", "a-2")]
ACCOUNTS = Table("accounts", "id", items=HELD)
FILES = {"buckets": ["files"], "tables": []}
MACHINE = {"set_up": make_machine, "tables": []}
BUS = {"set_up": make_bus, "tables": []}
IN_ORDERS = {"tables": COMPARED}
VERSIONS = {"events": [{**ORDER, "version": 1}], "other_content": "last", **IN_ORDERS}
CHARGED = {**IN_ORDERS, "answers": [Answer("https://pay.example/", body={"id": "ch-1"})]}
ANNOUNCED = {**IN_ORDERS, "topics": ["orders"], "environment": {"TOPIC": "{topic:orders}"}}
CASES = (
    Case(
        "token_and_condition",
        {
            **dict.fromkeys(
                (Fault.SENT_AGAIN, Fault.REDRIVEN, Fault.AFTER_EXPIRY, Fault.BATCH), SOUND
            ),
            **dict.fromkeys((Fault.NEIGHBOUR_FAILS, Fault.POISON), REFUSED),
        },
    ),
    Case(
        "token_only",
        {Fault.SENT_AGAIN: SOUND, Fault.REDRIVEN: DOUBLED, Fault.AFTER_EXPIRY: DOUBLED},
        "transact_write_items",
    ),
    Case(
        "exits_on_duplicates",
        {Fault.SENT_AGAIN: (Kind.DEAD_LETTERED,), Fault.DIES_BEFORE: SOUND},
        given=IN_ORDERS,
    ),
    Case(
        "uploads_a_stream", {Fault.ANSWER_LOST_RETRIED: SOUND, Fault.REDRIVEN: SOUND}, given=FILES
    ),
    Case("uploads_a_file", {Fault.ANSWER_LOST_RETRIED: SOUND}, given=FILES),
    Case(
        "uploads_under_a_new_name",
        {Fault.ANSWER_LOST_RETRIED: SOUND, Fault.REDRIVEN: DOUBLED},
        given=FILES,
    ),
    Case(  # the second answer, once the execution has ended, is an error that it does not expect
        "starts_by_name",
        {
            Fault.ANSWER_LOST_RETRIED: SOUND,
            **dict.fromkeys((Fault.DIES_AFTER, Fault.AFTER_EXPIRY), REFUSED),
        },
        given=MACHINE,
    ),
    Case(
        "starts_by_name_once",
        dict.fromkeys((Fault.DIES_AFTER, Fault.ANSWER_LOST_RETRIED, Fault.AFTER_EXPIRY), SOUND),
        given=MACHINE,
    ),
    Case(  # an express workflow has no memory of names
        "starts_by_name",
        {Fault.DIES_AFTER: DOUBLED, Fault.REDRIVEN: DOUBLED, Fault.DIES_BEFORE: SOUND},
        "start_execution",
        {**MACHINE, "set_up": partial(make_machine, "EXPRESS")},
    ),
    Case(
        "queries_with_a_token",
        {Fault.DIES_AFTER: SOUND, Fault.REDRIVEN: SOUND, Fault.AFTER_EXPIRY: DOUBLED},
        "start_query_execution",
        {"tables": []},
    ),
    Case(
        "starts",
        dict.fromkeys((Fault.DIES_AFTER, Fault.DELIVERED_AGAIN, Fault.BATCH_ANSWER_LOST), DOUBLED),
        "start_execution",
        MACHINE,
    ),
    Case(
        "loses_unprocessed_items",
        {Fault.PARTLY_DONE: LOST, Fault.REDRIVEN: SOUND},
        "batch_write_item",
        IN_ORDERS,
    ),
    Case("writes_unprocessed_items", {Fault.PARTLY_DONE: SOUND}, given=IN_ORDERS),
    Case("loses_failed_entries", {Fault.PARTLY_DONE: LOST}, "put_events", BUS),
    Case(
        "reports_failed_entries",
        {Fault.PARTLY_DONE: SOUND, Fault.SENT_AGAIN: SOUND},
        given={**BUS, "repeatable": ["shop"]},
    ),
    Case(
        "sends_without_looking",
        {Fault.PARTLY_DONE: LOST, Fault.DIES_AFTER: DOUBLED},
        "send_message_batch",
        {"queues": ["mails"], "environment": {"MAILS": "{queue:mails}"}, "tables": []},
    ),
    Case("inserts_by_statement", {Fault.DIES_AFTER: SOUND, Fault.REDRIVEN: SOUND}, given=IN_ORDERS),
    Case(
        "invokes_a_function",
        {Fault.DIES_AFTER: DOUBLED, Fault.DIES_BEFORE: SOUND},
        "invoke",
        {"tables": []},
    ),
    Case(  # with the text of a neighbour as the requests to a table
        "writes_what_it_is_told",
        {Fault.NEIGHBOUR_FAILS: SOUND, Fault.DIES_AFTER: SOUND},
        given={"events": [REQUESTS], "key": "", "tables": COMPARED},
    ),
    Case("adds_by_reading", {Fault.TWO_IN_PARALLEL: LOST}, "put_item"),
    Case("adds_by_reading", {Fault.TWO_IN_PARALLEL: LOST}, "put_item", {"batch_size": 1}),
    Case("asks_a_model", {Fault.DIES_AFTER: SOUND, Fault.SENT_AGAIN: SOUND}, given=IN_ORDERS),
    Case(
        "asks_for_a_report",
        {Fault.SENT_AGAIN: DOUBLED},
        "generate_credential_report",
        {"tables": []},
    ),
    Case(
        "replaces_by_http",
        {Fault.DIES_AFTER: SOUND, Fault.SENT_AGAIN: SOUND, Fault.BATCH: SOUND},
        given={"key": "", "tables": []},
    ),
    Case(
        "announces_in_order",
        {Fault.SENT_AGAIN: SOUND, Fault.REDRIVEN: DOUBLED},
        "publish",
        {"topics": ["orders.fifo"], "tables": []},
    ),
    Case(
        "replaces_by_http_each_time",
        {Fault.DIES_AFTER: DOUBLED, Fault.DIES_BEFORE: SOUND},
        "request",
        {"tables": []},
    ),
    Case("has_an_endpoint", {Fault.SENT_AGAIN: SOUND, Fault.DIES_AFTER: SOUND}, given=IN_ORDERS),
    Case(
        "transfers_in_two_writes",
        {Fault.DIES_AFTER: LOST, Fault.REDRIVEN: SOUND},
        "update_item",
        {"events": [TRANSFER], "key": "", "tables": [ACCOUNTS]},
    ),
    Case(
        "transfers_in_one_write",
        dict.fromkeys((Fault.DIES_AFTER, Fault.REDRIVEN, Fault.TWO_IN_PARALLEL), SOUND),
        given={"events": [TRANSFER], "key": "", "tables": [ACCOUNTS]},
    ),
    Case(
        "counts_its_jobs_once",
        dict.fromkeys((Fault.DIES_AFTER, Fault.TWO_IN_PARALLEL, Fault.BATCH_ANSWER_LOST), SOUND),
        given={"key": "", "tables": [TABLES[1]]},
    ),
    # Of the samples, only the third shows the bug.
    Case("books_each_kind", {Fault.SENT_AGAIN: DOUBLED}, "update_item", SEVERAL),
    Case(
        "books_each_kind",
        {Fault.SENT_AGAIN: DOUBLED},
        "update_item",
        {"events": OF_ONE_FORM, "tables": BOTH},
    ),
    Case(
        "books_each_kind_once", dict.fromkeys((Fault.SENT_AGAIN, Fault.BATCH), SOUND), given=SEVERAL
    ),
    # Without a key, the second message is found by its effect.
    Case("adds_by_reading", {Fault.TWO_IN_PARALLEL: LOST}, "put_item", {"key": ""}),
    Case(
        "remembers_the_last",
        {Fault.BATCH_ANSWER_LOST: DOUBLED, Fault.REDRIVEN: SOUND},
        "update_item",
        {"key": "", "tables": [TABLES[1]]},
    ),
    Case(
        "remembers_each", {Fault.BATCH_ANSWER_LOST: SOUND, Fault.REDRIVEN: SOUND}, given={"key": ""}
    ),
    Case(
        "appends_to_a_file",
        {Fault.TWO_IN_PARALLEL: LOST, Fault.REDRIVEN: SOUND},
        "put_object",
        {**FILES, "key": ""},
    ),
    Case("files_each_order", {Fault.TWO_IN_PARALLEL: SOUND}, given={**FILES, "key": ""}),
    Case("adds_in_one_write", {Fault.TWO_IN_PARALLEL: SOUND, Fault.IN_PARALLEL: SOUND}),
    Case(
        "marks_its_batch",
        {Fault.REGROUPED: DOUBLED, Fault.BATCH_ANSWER_LOST: SOUND, Fault.DELIVERED_AGAIN: SOUND},
        "transact_write_items",
        {"events": [ORDER, OTHER]},
    ),
    Case(
        "marks_for_a_day",
        {Fault.AFTER_EXPIRY: DOUBLED, Fault.REDRIVEN: SOUND},
        "transact_write_items",
    ),
    Case(
        "marks_for_a_month",
        {Fault.AFTER_EXPIRY: SOUND, Fault.REGROUPED: SOUND, Fault.OTHER_CONTENT: LOST},
        given={"other_content": "error"},
    ),
    Case("marks_for_a_month", {Fault.OTHER_CONTENT: SOUND}, given={"other_content": "first"}),
    Case("marks_for_a_month", {Fault.OTHER_CONTENT: SOUND}),
    Case("keeps_the_latest", {Fault.OTHER_CONTENT: SOUND, Fault.REDRIVEN: SOUND}, given=VERSIONS),
    Case("replaces_an_item", {Fault.OTHER_CONTENT: SOUND}, given=VERSIONS),
    Case("stores_the_first", {Fault.OTHER_CONTENT: LOST}, "put_item", VERSIONS),
    Case(
        "stores_the_first",
        {Fault.OTHER_CONTENT: LOST},
        "put_item",
        {**VERSIONS, "events": [{"order_id": "o-1", "state": "paid"}]},
    ),
    Case(
        "reads_an_old_state",
        {Fault.STALE_READ: DOUBLED, Fault.DELIVERED_AGAIN: SOUND},
        "transact_write_items",
    ),
    Case("reads_the_latest_state", {Fault.DELIVERED_AGAIN: SOUND}),
    Case(
        "reads_a_notification",
        {Fault.BATCH: SOUND, Fault.REGROUPED: SOUND},
        given={"events": [NOTIFICATION], "key": "Message.order_id"},
    ),
    Case(
        "forgets_the_second",
        {Fault.BATCH: LOST},
        "transact_write_items",
        given={"events": [NOTIFICATION], "key": "Message.order_id"},
    ),
    Case(
        "charges_with_a_fresh_key",
        {
            **dict.fromkeys((Fault.DIES_AFTER, Fault.ANSWER_LOST, Fault.TIMED_OUT), DOUBLED),
            **dict.fromkeys((Fault.SENT_AGAIN, Fault.AFTER_EXPIRY), SOUND),
        },
        "request",
        CHARGED,
    ),
    Case(
        "charges_with_its_own_key",
        dict.fromkeys(
            (Fault.DIES_AFTER, Fault.ANSWER_LOST_RETRIED, Fault.TIMED_OUT, Fault.IN_PARALLEL), SOUND
        ),
        given=CHARGED,
    ),
    Case(
        "locks_without_a_lease",
        {Fault.DIES_BEFORE: STUCK, Fault.DELIVERED_AGAIN: SOUND},
        given={
            "tables": [*COMPARED, Table("locks", "order_id", compared=False)],
            "environment": {"SOURCE": "{source}"},
        },
    ),
    Case(
        "counts_beside_its_put",
        {
            **dict.fromkeys((Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.DEADLINE), LOST),
            Fault.ANSWER_LOST_RETRIED: (Kind.LOST, Kind.DOUBLED),
            Fault.REDRIVEN: SOUND,
        },
        "update_item",
    ),
    Case(
        "swallows_errors",
        {Fault.REFUSED: LOST, Fault.THROTTLED: LOST, Fault.DIES_BEFORE: SOUND},
        "put_item",
        IN_ORDERS,
    ),
    Case(
        "takes_a_conflict_for_a_duplicate",
        {Fault.CONFLICTED: LOST, Fault.SENT_AGAIN: SOUND},
        "transact_write_items",
    ),
    Case(
        "looks_up_its_batch_first",
        {Fault.IN_PARALLEL: DOUBLED, Fault.TWICE_IN_BATCH: DOUBLED, Fault.DELIVERED_AGAIN: SOUND},
        "update_item",
    ),
    Case(
        "answers_with_a_set", {Fault.SENT_AGAIN: REFUSED, Fault.DIES_BEFORE: SOUND}, given=IN_ORDERS
    ),
    Case(
        "answers_with_decimals_and_bytes",
        {Fault.SENT_AGAIN: SOUND, Fault.DIES_AFTER: SOUND},
        given=IN_ORDERS,
    ),
    Case(
        "answers_before_its_work",
        {Fault.REDRIVEN: (Kind.ACKNOWLEDGED_EARLY,)},
        "put_item",
        IN_ORDERS,
    ),
    # What their subjects declare is needed.
    Case("announces_after_its_put", {Fault.SENT_AGAIN: DOUBLED}, "publish", ANNOUNCED),
    Case(
        "announces_after_its_put",
        {Fault.SENT_AGAIN: SOUND, Fault.DIES_AFTER: SOUND},
        given={**ANNOUNCED, "repeatable": ["orders"]},
    ),
    Case(
        "replaces_an_item",
        {Fault.OTHER_CONTENT: OVERWRITTEN},
        "put_item",
        {**IN_ORDERS, "other_content": "first"},
    ),
    Case("replaces_an_item", {Fault.REDRIVEN: SOUND}, given={**IN_ORDERS, "skip": ["poison"]}),
)
IN_FULL = (
    Case("works_in_a_pool", {}, given={"events": [ORDER, OTHER], "key": "", "tables": BOTH}),
    Case("adds_each_once", {}, given={"batch_size": 1}),
    Case(
        "remembers_a_digest",
        {},
        given={"tables": [Table("orders", "order_id", ttl="expires_at"), BOTH[1]]},
    ),
)


def call_at(site: str) -> str:
    """Return the name of the outermost method that is called at `file:line`; empty if none."""
    path, _, line = site.rpartition(":")
    if not path:
        return ""
    nodes = ast.walk(ast.parse((HERE / path).read_text()))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    spans = [call for call in calls if call.lineno <= int(line) <= (call.end_lineno or 0)]
    names = [call.func.attr for call in spans if isinstance(call.func, ast.Attribute)]
    return names[0] if names else ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.handler))
def test_a_verdict_has_its_kind_and_place(case: Case) -> None:
    ensure_found(case, examine(case.subject(), only=[*case.found]))


def ensure_found(case: Case, found: Report) -> None:
    for fault, kinds in case.found.items():
        results = [result for result in found.results if result.fault is fault and result.fired]
        assert results, (fault, found.not_run)
        differences = [d for result in results for d in result.differences]
        assert {d.kind for d in differences} == set(kinds), fault
        places = {call_at(d.site) for d in differences}
        assert places <= {case.call}, fault


def test_every_fault_finds_a_bug() -> None:
    found = {fault for case in CASES for fault, kinds in case.found.items() if kinds}
    assert found == set(Fault)


@pytest.mark.parametrize(
    "subject",
    [*(case.subject() for case in IN_FULL), APPROACHES["once"].subject({})],
    ids=lambda subject: str(subject.handler),
)
def test_a_sound_handler_passes_every_fault(subject: Subject) -> None:
    results = examine(subject).results
    assert [(r.scenario, r.differences) for r in results if r.differences] == []
    assert [r.scenario for r in results if not r.fired and r.fault is not Fault.STALE_READ] == []


def test_a_consumer_with_a_pydantic_model_passes() -> None:
    faults = (Fault.DIES_AFTER, Fault.IN_PARALLEL, Fault.REDRIVEN, Fault.NEIGHBOUR_FAILS)
    once = APPROACHES["once"].subject({})
    case = Case("with_pydantic", dict.fromkeys((*faults, Fault.OTHER_CONTENT), SOUND))
    subject = replace(once, handler="with_pydantic.lambda_handler", root=HERE)
    ensure_found(case, examine(subject, only=[*case.found]))


def test_a_function_that_survives_its_slow_call_says_so() -> None:
    given = Case("adds_each_once", {}).subject()
    [result] = examine(given, only=[Fault.DEADLINE]).results[:1]
    assert "the function ends by itself, before its time is over" in result.course


def test_poison_is_of_several_kinds() -> None:
    found = examine(Case("catches_wrong_json", {}).subject(), only=[Fault.POISON])
    kinds = {result.scenario: [d.kind for d in result.differences] for result in found.results}
    assert kinds == {
        "poison@first": [],
        "poison@last": [],
        **{
            f"poison@{kind}": [Kind.DEAD_LETTERED]
            for kind in ("list", "null", "number", "text", "nested")
        },
    }


def test_an_expiry_that_is_declared_to_be_none_does_not_expire() -> None:
    tables = [replace(table, ttl=None) for table in TABLES]
    case = Case("marks_for_a_day", {Fault.AFTER_EXPIRY: SOUND})
    ensure_found(case, examine(case.subject(tables=tables), only=[Fault.AFTER_EXPIRY]))


@pytest.mark.parametrize(
    ("handler", "given", "told"),
    [
        ("exits_at_once", {}, "the handler ends its process"),
        ("waits_for_its_end", {}, "its time is over"),
        ("is_a_coroutine", {}, "Unable to marshal response: Object of type coroutine"),
        (
            "retries_without_bound",
            {"timeout_seconds": 2},
            "does not process the sample, without any fault: add --table missing:KEY",
        ),
        ("starts", {}, "add what stepfunctions.StartExecution needs, by `set_up` of a Subject"),
        ("starts", {"unread": ["a key"]}, "not read: a key"),
        ("copies_a_file", FILES, "add the object files/o-1, by `set_up` of a Subject"),
        ("starts_a_process", IN_ORDERS, r"starts a process at right_and_wrong\.py:\d+"),
        ("spawns_a_process", {}, r"starts a process at right_and_wrong\.py:\d+"),
    ],
)
def test_a_handler_without_a_verdict_is_explained(
    handler: str, given: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invocation, "MANY_CALLS", 30)
    with pytest.raises(SubjectError, match=told):
        examine(Case(handler, {}, given=given).subject(), only=[Fault.REDRIVEN])


@pytest.mark.parametrize(
    ("handler", "place"), [("marks_in_a_file", "/o-1"), ("marks_in_sqlite", "/markers.db")]
)
def test_state_that_outlives_a_run_prevents_a_verdict(
    handler: str, place: str, tmp_path: Path
) -> None:
    subject = Case(handler, {}).subject(environment={"FOLDER": str(tmp_path)})
    with pytest.raises(NoVerdict, match=rf"right_and_wrong\.py:\d+ writes .*{place}"):
        examine(subject, only=[Fault.REDRIVEN])


def test_a_file_without_influence_is_no_state(tmp_path: Path) -> None:
    case = Case("caches_in_a_file", {Fault.REDRIVEN: SOUND}, given=IN_ORDERS)
    subject = case.subject(environment={"FOLDER": str(tmp_path)})
    ensure_found(case, examine(subject, only=[*case.found]))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "orders.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id TEXT)")
        connection.execute("CREATE TABLE single (id TEXT PRIMARY KEY)")
    return path


@pytest.mark.parametrize(
    ("case", "path"),
    [
        (Case("inserts_rows", {Fault.DIES_AFTER: DOUBLED}, "commit"), "Connection.commit"),
        (Case("inserts_rows_once", {Fault.DIES_AFTER: SOUND}), "Cursor.execute"),
    ],
    ids=["connection", "cursor"],
)
def test_a_method_may_be_of_a_type_in_c(case: Case, path: str, database: Path) -> None:
    def execute(statement: str) -> list[Any]:
        with closing(sqlite3.connect(database)) as connection, connection:
            return connection.execute(statement).fetchall()

    def reset() -> None:
        execute("DELETE FROM orders")
        execute("DELETE FROM single")

    def rows() -> list[dict[str, Any]]:
        found = execute("SELECT id FROM orders UNION ALL SELECT id FROM single")
        return [{"id": value} for (value,) in found]

    subject = case.subject(
        environment={"DATABASE": str(database)},
        methods=[Method(f"sqlite3:{path}", lambda: sqlite3.OperationalError("locked"))],
        stores=[Store("orders", reset=reset, items=rows)],
        tables=[],
    )
    found = examine(subject, only=[*case.found])
    [first, *_] = [result for result in found.results if result.fired]
    assert {d.kind for d in first.differences} == set(case.found[Fault.DIES_AFTER])
    assert call_at(first.site) == path.partition(".")[2]


POSTGRES = [
    Method(f"psycopg2.extensions:{path}", lambda: psycopg2.OperationalError("server closed"))
    for path in ("cursor.execute", "connection.commit")
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with servers({"postgres"}) as urls:
        yield urls["postgres"]


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "counts_rows",
            {Fault.DIES_AFTER: DOUBLED, Fault.SENT_AGAIN: DOUBLED, Fault.DIES_BEFORE: SOUND},
        ),
        Case(
            "counts_rows_once",
            dict.fromkeys(
                (Fault.DIES_AFTER, Fault.ANSWER_LOST, Fault.IN_PARALLEL, Fault.REDRIVEN), SOUND
            ),
        ),
    ],
    ids=lambda case: str(case.handler),
)
def test_psycopg2_passes_the_boundary(case: Case, postgres: str) -> None:
    subject = case.subject(
        environment={"DATABASE_URL": postgres},
        methods=POSTGRES,
        stores=[postgres_store(postgres)],
        tables=[],
    )
    found = examine(subject, only=[*case.found])
    ensure_found(case, found)
    # Of a statement that was not committed, nothing is left: its first delivery is no duplicate.
    dies = {r.scenario: bool(r.differences) for r in found.results if r.fault is Fault.DIES_AFTER}
    assert not dies["dies-after@1.1"]
    assert dies["dies-after@1.2"] == bool(case.found[Fault.DIES_AFTER])


# In a child process: what a handler does to its process is a finding, and the check goes on.


@pytest.mark.parametrize(
    ("handler", "faults", "told"),
    [
        (
            "aborts_on_duplicates",
            [Fault.SENT_AGAIN, Fault.DIES_BEFORE, Fault.REDRIVEN],
            "ends its process by SIGKILL",
        ),
        ("hangs_on_duplicates", [Fault.SENT_AGAIN], r"hangs at right_and_wrong\.py:\d+"),
    ],
)
def test_an_end_of_the_process_is_a_finding(
    handler: str, faults: list[Fault], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "PATIENCE_SECONDS", 2.5)
    found = examine_in_child(Case(handler, {}, given=IN_ORDERS).subject(), only=faults)
    kinds = {r.scenario: [d.kind for d in r.differences] for r in found.results if r.differences}
    assert kinds == {str(f): [Kind.STUCK] for f in faults if f is not Fault.DIES_BEFORE}
    assert {result.fault for result in found.results} == {*faults}
    told_of = [d.detail for result in found.results for d in result.differences]
    assert all(re.search(told, detail) for detail in told_of)


def test_what_a_handler_writes_to_a_descriptor_is_not_in_front_of_a_report(
    capfd: pytest.CaptureFixture[str],
) -> None:
    given = Case("writes_to_a_descriptor", {}, given=IN_ORDERS).subject()
    assert examine_in_child(given, only=[Fault.REDRIVEN]).results[0].fired
    assert capfd.readouterr().out == ""


def test_the_child_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "from redelivery import check, Subject; from pathlib import Path; "
        f"check(Subject('right_and_wrong.hangs_at_once', [{{}}], root=Path({str(HERE)!r})))"
    )
    marker = tmp_path / "hangs"
    environment = {**os.environ, "PYTHONPATH": str(KIT), "MARKER": str(marker)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    try:
        wait_until(marker.exists)
        [child_id] = children.read_text().split()
    finally:
        parent.terminate()
        parent.wait()
    wait_until(lambda: not Path(f"/proc/{child_id}/exe").exists())
