"""The kit finds each planted bug and nothing in sound handlers, and judges its controls."""

import ast
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from moto.moto_api._internal import mock_random

from redelivery import Fault, Kind, Report, Subject, check, self_check
from redelivery.boundary.call import Call
from redelivery.formats import document
from redelivery.samples import Message, Samples
from redelivery.scenarios.scenario import pairs, scenarios
from tests.conformance.handlers.subjects import (
    ANNOUNCE_AFTER,
    PLANTED,
    SOUND,
    THREAD_POOL,
    UPSERT,
    PlantedBug,
)
from tests.conformance.support import subject as written

IN_THE_CORPUS = {
    *(Fault.PARTLY_DONE, Fault.TWO_IN_PARALLEL, Fault.STALE_READ, Fault.REGROUPED),
    Fault.TWO_FAULTS,
}


def findings(report: Report, fault: Fault, root: Path) -> Iterator[tuple[Kind, str]]:
    """Yield kind and call of each difference that a fault made."""
    for result in report.of(fault):
        for difference in result.differences if result.fired else ():
            yield difference.kind, call_at(difference.site, root)


def call_at(site: str, root: Path) -> str:
    """Return the name of the outermost method that is called at `file:line`; empty if none."""
    path, _, line = site.rpartition(":")
    if not path:
        return ""
    nodes = ast.walk(ast.parse((root / path).read_text()))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    spans = [call for call in calls if call.lineno <= int(line) <= (call.end_lineno or 0)]
    names = [call.func.attr for call in spans if isinstance(call.func, ast.Attribute)]
    return names[0] if names else ""


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: str(bug.subject.handler))
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    report = check(bug.subject, only=[*bug.found_by, *bug.harmless])
    for fault, kind in bug.found_by.items():
        assert (kind, bug.call) in set(findings(report, fault, bug.subject.root)), fault
    for fault in bug.harmless:
        assert [(r.scenario, r.differences) for r in report.of(fault) if r.differences] == []
        assert any(result.passed for result in report.of(fault)), fault


def test_every_fault_finds_a_planted_bug() -> None:
    assert {fault for bug in PLANTED for fault in bug.found_by} | IN_THE_CORPUS == set(Fault)


HAS_RANDOM_KEYS = """
    import boto3
    import os
    import uuid

    sqs, orders = boto3.client("sqs"), boto3.resource("dynamodb").Table("orders")

    def handler(event, context):
        for record in event["Records"]:
            sent = sqs.send_message(QueueUrl=os.environ["MAILS"], MessageBody=record["body"])
            orders.put_item(Item={"order_id": f"{uuid.uuid4()} {sent['MessageId']}"})
"""


def test_the_same_seed_gives_the_same_document(tmp_path: Path) -> None:
    mails = {"queues": ["mails"], "environment": {"MAILS": "{queue:mails}"}}
    given = written(tmp_path, HAS_RANDOM_KEYS, **mails)
    documents = []
    for _ in range(2):
        random.random()  # as another process would: a check begins with other states
        mock_random.random()
        report = check(given, seed=7, only=[Fault.TIMED_OUT, Fault.REDRIVEN])
        documents.append(document(replace(report, seconds=0)))
    first, second = documents
    assert first["severity"] == "doubled"
    assert first == second


def test_another_seed_draws_other_interleavings_and_pairs() -> None:
    calls, one = [Call("dynamodb.PutItem", writes=True)] * 9, Samples(Message("m1", "{}"), None)
    drawn = [[s.name for s in scenarios(calls, calls, one, n, fifo=False)] for n in (7, 7, 8)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    singles = scenarios(calls, calls, one, 7, fifo=False)
    two = [[s.name for s in islice(pairs(singles, 9, n), 20)] for n in (7, 7, 8)]
    assert two[0] == two[1]
    assert two[0] != two[2]
    assert len({*two[0]}) == 20


# The kit finds nothing in sound handlers, and what their subjects declare is needed.


@pytest.mark.parametrize("subject", SOUND, ids=lambda subject: str(subject.handler))
def test_a_sound_handler_passes(subject: Subject) -> None:
    report = check(subject)
    assert [(r.scenario, r.differences) for r in report.failures] == []
    idle = [r.scenario for r in report.results if not r.fired]
    assert [name for name in idle if name != Fault.STALE_READ] == []
    assert report.passed


@pytest.mark.parametrize(
    ("subject", "fault", "kind"),
    [
        (replace(UPSERT, skip=()), Fault.OTHER_CONTENT, Kind.OVERWRITTEN),
        (replace(ANNOUNCE_AFTER, repeatable=()), Fault.SENT_AGAIN, Kind.DOUBLED),
    ],
    ids=["skip", "repeatable"],
)
def test_a_declared_exception_is_needed(subject: Subject, fault: Fault, kind: Kind) -> None:
    [failure] = check(subject, only=[fault]).failures
    assert [difference.kind for difference in failure.differences] == [kind]


def test_a_handlers_own_threads_make_their_calls_in_one_order() -> None:
    faults = [Fault.BATCH, Fault.BATCH_ANSWER_LOST, Fault.DIES_AFTER]
    first, *others = (check(THREAD_POOL, only=faults).results for _ in range(4))
    assert len(first) > 1
    assert [other == first for other in others] == [True, True, True]


# The self-check judges every control, once for an installed version.


def test_controls_are_judged_rightly_and_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    self_check.self_check.cache_clear()
    first = self_check.self_check()
    assert set(first.values()) == {True}
    assert len(first) == len(self_check.CONTROLS)
    self_check.self_check.cache_clear()
    monkeypatch.setattr(self_check, "_is_judged_rightly", lambda _: pytest.fail("runs again"))
    assert self_check.self_check() == first


def test_controls_that_are_judged_wrongly_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(self_check, "_is_judged_rightly", lambda control: control.judged)
    for _ in range(2):
        self_check.self_check.cache_clear()
        assert set(self_check.self_check().values()) == {True, False}
    self_check.self_check.cache_clear()
