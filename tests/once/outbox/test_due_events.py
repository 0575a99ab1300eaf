"""Due events: the relay creates one schedule for each, whatever Scheduler answers."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import msgspec
import pytest

from once.events.identity import key_hash
from once.events.outgoing import OutgoingEvent, events_in
from once.names import Limits
from once.outbox.due_events import DueEvents, schedule_name
from once.outbox.relay import NotRelayed, Relay
from once.runtime.deadline import Deadline
from once.settings import ScheduleSettings
from once.testing import Fault, answer_lost, inject, never_sent, refused
from tests.once.outbox.relaying import (
    REGION,
    THEN,
    RelayHarness,
    change,
    image,
    outgoing,
    queue_arn,
)
from tests.once.outbox.test_relay import metrics
from tests.once.support import facts

GROUP = "shop-schedules"
SCHEDULES = ScheduleSettings(
    GROUP, "arn:aws:iam::123456789012:role/schedules", queue_arn("relay-dead-letters")
)
ORDINARY, OTHER = outgoing(0), outgoing(0, pk="notes#f")


def due_event(position: int, seconds: float = 1800, **more: Any) -> OutgoingEvent:
    """An event that is due so long after its commit."""
    event = outgoing(position, **more)
    time, asked = (datetime.fromtimestamp(THEN + s, UTC).isoformat() for s in (seconds, 0))
    body = json.dumps({**json.loads(event.body), "time": time, "oncedue": asked})
    return msgspec.structs.replace(event, body=body)


FIRST, ONE, TWO = due_event(0), due_event(1), due_event(2, 86_400)
BATCH = change(image(ORDINARY, ONE, TWO))


@pytest.fixture
def harness(harness: RelayHarness) -> RelayHarness:
    harness.settings = msgspec.structs.replace(harness.settings, schedules=SCHEDULES)
    made = Relay.of(harness.settings, region=REGION)
    harness.relay = replace(harness.relay, settings=made.settings, scheduler=made.scheduler)
    harness.relay.scheduler.create_schedule_group(Name=GROUP)
    return harness


def schedules(harness: RelayHarness) -> list[dict[str, Any]]:
    client = harness.relay.scheduler
    listed = client.list_schedules(GroupName=GROUP)["Schedules"]
    return [client.get_schedule(GroupName=GROUP, Name=each["Name"]) for each in listed]


def names(harness: RelayHarness) -> list[str]:
    return sorted(each["Name"] for each in schedules(harness))


NAMES = [f"{THEN + s}.{key_hash('notes#e')[:40]}.{n}" for n, s in ((1, 1800), (2, 86_400))]


def test_a_due_event_gets_a_schedule_that_publishes_it_and_deletes_itself(
    harness: RelayHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = harness.handle(BATCH)
    assert answer == {
        "published": {"counted": 1}, "scheduled": {"counted": 2}, "dead_lettered": []
    }  # fmt: skip
    assert harness.published() == [ORDINARY.body]
    assert names(harness) == NAMES
    found = min(schedules(harness), key=lambda each: str(each["Name"]))
    assert found["ScheduleExpression"] == "at(2027-01-15T08:30:00)"
    assert found["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert found["ActionAfterCompletion"] == "DELETE"
    target = found["Target"]
    assert target["Arn"] == "arn:aws:scheduler:::aws-sdk:sns:publish"
    assert target["RoleArn"] == SCHEDULES.role_arn
    assert target["DeadLetterConfig"] == {"Arn": SCHEDULES.dead_letter_arn}
    assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] == 86_400
    # The parameters are those of SNS's Publish, and the subscriber gets the event as committed.
    boto3.client("sns", REGION).publish(**json.loads(target["Input"]))
    assert harness.published() == [ONE.body]
    [line] = metrics(capsys)
    assert (line["EventsPublished"], line["DueEventsCreated"]) == ([1.0], [2.0])
    logged = harness.logged()[-1]
    assert (logged["message"], logged["published"], logged["scheduled"]) == ("relayed", 1, 2)


def test_o2_an_event_that_is_not_published_beside_a_new_schedule_is_retried(
    harness: RelayHarness,
) -> None:
    with inject(harness.relay.sns, "PublishBatch", never_sent()):
        harness.handle(BATCH)
    assert harness.published() == [ORDINARY.body]
    assert names(harness) == NAMES


def test_o1_a_batch_that_comes_again_makes_no_second_schedule(harness: RelayHarness) -> None:
    for _ in range(2):
        harness.handle(BATCH)
    assert names(harness) == NAMES
    assert harness.dead_letters() == []


def test_an_event_whose_time_has_come_is_published_at_once(harness: RelayHarness) -> None:
    past = due_event(0, 2)
    assert harness.handle(change(image(past))) == {"published": {"counted": 1}, "dead_lettered": []}
    assert harness.published() == [past.body]
    assert schedules(harness) == []


def test_a_schedule_is_never_created_for_a_time_that_passes_meanwhile(
    harness: RelayHarness,
) -> None:
    harness.handle(change(image(due_event(0, 3))))
    [found] = schedules(harness)  # the relay's clock is 2.5 s after the commit
    assert found["ScheduleExpression"] == "at(2027-01-15T08:00:08)"
    assert found["Name"].startswith(f"{THEN + 3}.")


TRANSIENT = {
    "throttled": refused("ThrottlingException", status=429),
    "too many schedules": refused("ServiceQuotaExceededException", status=402),
    "an error of the service": refused("InternalServerException", status=500),
    "no answer": never_sent(),
    "an answer that is lost": answer_lost(),
    "a role that is new": Fault(
        error={
            "Error": {
                "Code": "ValidationException",
                "Message": "The execution role you provide must allow AWS EventBridge Scheduler to "
                "assume the role.",
            },
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }
    ),
}


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_o2_a_fault_that_may_pass_is_retried_and_events_beside_it_are_published(
    harness: RelayHarness, fault: Fault
) -> None:
    with inject(harness.relay.scheduler, "CreateSchedule", fault, fault, None) as left:
        harness.handle(BATCH)
    assert left == []
    assert names(harness) == NAMES
    assert harness.published() == [ORDINARY.body]
    assert harness.dead_letters() == []


def test_o2_a_time_that_has_passed_for_aws_alone_is_published_when_it_has_passed_here(
    harness: RelayHarness,
) -> None:
    soon, now = due_event(0, 60), [THEN + 1.0]
    harness.relay = replace(
        harness.relay,
        clock=lambda: now[0],
        sleep=lambda _: now.append(now.pop() + 50),
    )
    with inject(harness.relay.scheduler, "CreateSchedule", *[refused("ValidationException")] * 2):
        harness.handle(change(image(soon)))
    assert harness.published() == [soon.body]
    assert harness.dead_letters() == []


def test_o2_until_the_time_is_up_further_schedules_are_not_tried(harness: RelayHarness) -> None:
    many = change(image(*(due_event(n) for n in range(30))))
    faults, pauses, sleep = [never_sent()] * 10_000, 0, harness.relay.sleep

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        sleep(seconds)

    harness.relay = replace(harness.relay, sleep=pause)
    with (
        inject(harness.relay.scheduler, "CreateSchedule", *faults) as left,
        pytest.raises(NotRelayed, match=r"^30 events are not published: ReadTimeoutError"),
    ):
        harness.handle(many)
    tried = len(faults) - len(left)
    assert tried == 10 * (pauses + 1)  # ten at a time, and then a pause
    assert harness.context.remaining_ms >= harness.settings.time_margin_ms


@pytest.mark.parametrize(("transient", "tried"), [(0, 4), (1, 2)])
def test_o2_one_fault_that_may_pass_ends_the_round_and_a_refusal_does_not(
    harness: RelayHarness, transient: int, tried: int
) -> None:
    settings, client = SCHEDULES, harness.relay.scheduler
    due = DueEvents(client, "topic", settings, harness.relay.clock, threads=2)
    faults = [refused("ValidationException"), refused("ThrottlingException")][: 1 + transient]
    deadline = Deadline(harness.context.get_remaining_time_in_millis, 0)
    with inject(client, "CreateSchedule", *faults):
        failures = due.create(events_in(image(*map(due_event, range(4)))), deadline)
    assert len(schedules(harness)) == tried - len(faults)
    assert sorted(each.permanent for each in failures) == [*[False] * (3 * transient), True]


def test_o2_without_time_the_batch_comes_again(harness: RelayHarness) -> None:
    harness.context.remaining_ms = harness.settings.time_margin_ms
    with pytest.raises(NotRelayed, match=r"^1 events are not published: no time is left"):
        harness.handle(change(image(FIRST)))
    assert schedules(harness) == []


def test_o4_an_event_that_scheduler_refuses_is_dead_lettered_beside_the_others(
    harness: RelayHarness,
) -> None:
    with inject(harness.relay.scheduler, "CreateSchedule", refused("ValidationException")):
        answer = harness.handle(change(image(FIRST)), change(image(OTHER, pk="notes#f")))
    assert (answer["published"], "scheduled" in answer) == ({"counted": 1}, False)
    [letter] = harness.dead_letters()
    assert letter["Body"] == FIRST.body
    found = facts(letter)
    assert found["reason"] == "unpublishable"
    assert found["error"].startswith(
        "Unpublishable: counted cannot be scheduled: ValidationException"
    )


@pytest.mark.parametrize(
    ("changed", "error"),
    [({"schedules": None},
      "scheduled: add the type to publishes_later= of its consumer in the CDK app and deploy"),
     ({"ordered_types": ("counted",), "ordered_topic_arn": "t"},
      "scheduled: a FIFO consumer takes the type, and a schedule keeps no order")],
    ids=["of a service without schedules", "of an ordered type"],
)  # fmt: skip
def test_o4_a_due_event_that_no_schedule_may_hold_is_dead_lettered(
    harness: RelayHarness, changed: Any, error: str
) -> None:
    settings = msgspec.structs.replace(harness.settings, **changed)
    harness.relay = replace(harness.relay, settings=settings)
    harness.handle(change(image(FIRST)))
    [letter] = harness.dead_letters()
    assert error in facts(letter)["error"]
    assert schedules(harness) == []


@pytest.mark.parametrize("time", [None, 7, "tomorrow", "0001-01-01", "9" * 30])
def test_o4_a_due_event_without_a_time_is_dead_lettered(harness: RelayHarness, time: Any) -> None:
    body = json.dumps({**json.loads(FIRST.body), "time": time})
    harness.handle(change(image(msgspec.structs.replace(FIRST, body=body))))
    assert [letter["Body"] for letter in harness.dead_letters()] == [f"[{body}]"]


def test_the_name_of_a_schedule_fits_and_differs_by_time_key_and_position() -> None:
    roots, places = (key_hash("a"), key_hash("b")), (0, Limits.TRANSACTION_ACTIONS * 100)
    made = {schedule_name(f"{r}.{p}", d) for r in roots for p in places for d in (THEN, 10**10)}
    assert len(made) == 8
    assert max(map(len, made)) <= 64
