"""The kit finds nothing in sound handlers, and what their subjects declare is needed."""

from dataclasses import replace

import pytest

from redelivery import Fault, Kind, Subject, check
from tests.conformance.handlers.sound_handlers import ANNOUNCE_AFTER, SOUND, UPSERT


@pytest.mark.parametrize("subject", SOUND, ids=lambda subject: str(subject.handler))
def test_a_sound_handler_passes(subject: Subject) -> None:
    report = check(subject)
    assert [(r.scenario, r.differences) for r in report.failures] == []
    assert [r.scenario for r in report.results if not r.fired] == []
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
    [pool] = [subject for subject in SOUND if subject.handler.startswith("thread_pool")]
    faults = [Fault.BATCH, Fault.BATCH_ANSWER_LOST, Fault.DIES_AFTER]
    first, *others = (check(pool, only=faults).results for _ in range(4))
    assert len(first) > 1
    assert [other == first for other in others] == [True, True, True]
