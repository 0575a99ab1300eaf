"""`outbox list`: events that wait. `outbox republish`: by the relay, or to one consumer's queue."""

import io
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from once.events.identity import key_hash
from once.events.outgoing import OutgoingEvent
from once.names import CLOCK_SKEW_SECONDS, EVENT_TYPE_ATTRIBUTE, DeadLetterAttribute
from once.ops.aws.clients import ATTEMPTS, client
from once.ops.aws.deployment import Deployment
from once.ops.republication import queue_sender, stream_batches
from tests.ops import support
from tests.ops.cloud import Cloud
from tests.ops.outboxes import REPUBLISH, commit, commit_each, event, ids, published
from tests.ops.shop import HOUR


def hours_ago(hours: float) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat()


def test_events_are_published_as_they_were_committed_and_counted_by_type(cloud: Cloud) -> None:
    bodies = [event("orders#a"), event("orders#a", 1, "stock.reserved"), event("inventory#b")]
    commit(cloud, "orders#a", *bodies[:2])
    commit(cloud, "inventory#b", bodies[2])
    commit(cloud, "inventory#c")
    counts = {
        "records read": "2",
        "records left out as too old": "0",
        "order.placed": "2",
        "stock.reserved": "1",
        "events": "3",
    }
    dry_run = support.stdout_of(*REPUBLISH, "2h", "--dry-run")
    assert "┃ to be published " in dry_run
    assert support.numbers(dry_run) == counts
    asking = support.stderr_of("outbox", "republish", "--since", "2h")
    assert "publish 3 events again?" in asking
    assert "nothing was changed: answer y, or give --yes" in asking
    assert published(cloud) == set()
    output = support.stdout_of(*REPUBLISH, "2h")
    assert "┃ published " in output
    assert support.numbers(output) == counts
    # No queue subscribes to the other type.
    assert cloud.take("orders") == Counter([bodies[0], bodies[2]])


def test_events_in_a_sequence_item_are_published_from_their_record_alone(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a")
    commit(cloud, "orders#sequence#g", event("orders#a"), dedup_key={"S": "orders#a"})
    output = support.stdout_of(*REPUBLISH, "2h")
    assert support.numbers(output)["records read"] == "1"
    assert published(cloud) == ids("orders#a")


def test_period_is_extended_by_the_clock_skew(cloud: Cloud) -> None:
    skew = CLOCK_SKEW_SECONDS / HOUR
    commit_each(cloud, "orders#after", age=2 - 1.1 * skew)
    commit_each(cloud, "orders#fast", age=2 - 0.9 * skew)
    commit_each(cloud, "orders#slow", age=4 + 0.9 * skew)
    commit_each(cloud, "orders#before", age=4 + 1.1 * skew)
    support.stdout_of(*REPUBLISH, "4h", "--until", hours_ago(2))
    assert published(cloud) == ids("orders#fast", "orders#slow")


def test_consumer_is_selected_by_its_whole_name(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a", "orders_archive#b", "inventory#c")
    support.stdout_of(*REPUBLISH, "2h", "--consumer", "orders")
    assert published(cloud) == ids("orders#a")


def test_record_that_expires_before_its_message_may_is_counted_as_too_old(cloud: Cloud) -> None:
    for left in (-1, 1, 30 * 24 - 1):
        commit_each(cloud, f"orders#{left}", expires_in=left)
    commit_each(cloud, "orders#b", expires_in=30 * 24 + 1)
    output = support.stdout_of(*REPUBLISH, "2h")
    assert published(cloud) == ids("orders#b")
    assert support.numbers(output)["records left out as too old"] == "3"


def test_every_page_of_the_table_is_read_consistently(cloud: Cloud) -> None:
    asked = support.requests_of("dynamodb.Scan")
    pks = [f"orders#{number}" for number in range(12)]
    for pk in pks:
        commit(cloud, pk, event(pk, data="x" * 200_000))  # a page of a scan ends at 1 MB
    support.stdout_of(*REPUBLISH, "2h")
    assert published(cloud) == ids(*pks)
    assert len(asked) > 1
    assert all(query["ConsistentRead"] for query in asked)


REFUSED = {
    "yesterday": (2, "Invalid value for --since: 'yesterday' is no point in time"),
    "2d --until soon": (2, "Invalid value for --until: 'soon' is no point in time"),
    "2d --until 3d": (2, "is not before --until"),
    "2999-01-01": (2, "is not before now"),
    "2h --consumer refunds": (1, "choose one of inventory, orders"),
    "2h --to refunds": (1, "no consumer 'refunds'"),
    "2h --to orders": (1, "'orders' takes no events of other consumers"),
}


def test_invalid_options_are_refused(cloud: Cloud) -> None:
    cloud.set_types("orders", external=["order.placed"], events=[])
    for options, (code, said) in REFUSED.items():
        assert said in support.stderr_of(*REPUBLISH, *options.split(), code=code)


def test_unreadable_outbox_is_reported_by_its_key_hash_and_others_are_published(
    cloud: Cloud,
) -> None:
    pks = [f"orders#{number}" for number in range(5)]
    commit_each(cloud, *pks)
    commit(cloud, "orders#customer-7", outbox='[{"id": "secret-of-customer-7", "source": 1}]')
    dry_run = support.run(*REPUBLISH, "2h", "--dry-run")
    assert cloud.relay_dead_letters() == []
    result = support.run(*REPUBLISH, "2h")
    assert published(cloud) == ids(*pks)
    for each in (dry_run, result):
        assert each.exit_code == 1
        assert support.numbers(each.stdout)["events"] == "5"
        assert f"  {key_hash('orders#customer-7')}\n" in each.stderr
        assert "customer-7" not in each.output
    assert "`once dlq list --consumer outbox_relay` says why" in result.stderr
    [message] = cloud.relay_dead_letters()
    assert (
        message["MessageAttributes"][DeadLetterAttribute.REASON]["StringValue"] == "unpublishable"
    )


def test_forged_events_are_not_published_and_their_record_is_reported_once(cloud: Cloud) -> None:
    pk = "orders#a"
    forged = [event(pk, 1, "payment.captured"), event(pk, 2, source="/once/payments")]
    commit(cloud, pk, event(pk), *forged)
    assert support.stderr_of(*REPUBLISH, "2h").count(key_hash(pk)) == 1
    assert published(cloud) == ids(pk)
    assert {message["Body"] for message in cloud.relay_dead_letters()} == {*forged}


def test_topic_that_throttles_every_attempt_ends_the_command(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a")
    cloud.relay_seconds = 0
    throttled = {"Successful": [], "Failed": [{"Id": "0", **support.THROTTLED_ENTRY}]}
    support.answer_with("sns.PublishBatch", lambda params: (support.OK, throttled))
    said = support.stderr_of(*REPUBLISH, "2h")
    assert (
        "did not publish all of 1 records in 6 attempts "
        "(NotRelayed: 1 events are not published: Throttled)" in said
    )
    assert "run the same command again" in said
    assert len(cloud.invocations) == ATTEMPTS


def test_relay_that_fails_once_is_invoked_again(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a")
    payload = io.BytesIO(b'{"errorMessage": "timed out"}')
    support.answer_once(
        "lambda.Invoke", (support.OK, {"FunctionError": "Unhandled", "Payload": payload})
    )
    support.stdout_of(*REPUBLISH, "2h")
    assert published(cloud) == ids("orders#a")


def test_batches_are_kept_below_lambdas_size_limit() -> None:
    # Escaped as JSON, an outbox takes up to twice its size.
    item = {"pk": {"S": "orders#a"}, "commit": {"S": "c"}, "outbox": {"S": '"' * 390_000}}
    assert [len(batch) for batch in stream_batches([item] * 20)] == [6, 6, 6, 2]


PAID = "payment.captured"
TO = ("outbox", "republish", "--yes", "--since", "2h", "--to")


@pytest.fixture
def paid(cloud: Cloud) -> list[str]:
    """Two committed events of a type that inventory takes; besides, another type and an old one."""
    bodies = [event("orders#a", 0, PAID), event("orders#b", 1, PAID)]
    commit(cloud, "orders#a", bodies[0])
    commit(cloud, "orders#b", event("orders#b", 0, "order.closed"), bodies[1])
    commit(cloud, "orders#c", event("orders#c", 0, PAID), age=3)
    return bodies


def test_events_of_its_types_reach_its_queue_only(cloud: Cloud, paid: list[str]) -> None:
    found = support.numbers(support.stdout_of(*TO, "inventory"))
    assert found[PAID] == "2"
    assert "order.closed" not in found
    messages = cloud.sqs.receive_message(
        QueueUrl=cloud.queue("inventory"), MessageAttributeNames=["All"], MaxNumberOfMessages=10
    )["Messages"]
    assert Counter(message["Body"] for message in messages) == Counter(paid)
    for message in messages:
        assert message["MessageAttributes"][EVENT_TYPE_ATTRIBUTE]["StringValue"] == PAID
    assert cloud.take("orders") == {}


def test_a_fifo_queue_gets_each_event_in_its_group_and_again_in_a_second_run(
    cloud: Cloud,
) -> None:
    paid = [event(f"orders#{n}", 0, PAID, data={"order_id": n}) for n in range(2)]
    for number, body in enumerate(paid):
        commit(cloud, f"orders#{number}", body)
    cloud.make_fifo("inventory", "order_id", external=[])
    cloud.set_types("inventory", events=[PAID], grouped_by="order_id")
    asked = support.requests_of("sqs.SendMessageBatch")
    for _ in range(2):
        assert support.numbers(support.stdout_of(*TO, "inventory"))[PAID] == "2"
    entries = [entry for request in asked for entry in request["Entries"]]
    groups = {entry["MessageBody"]: entry["MessageGroupId"] for entry in entries}
    assert groups == {body: str(number) for number, body in enumerate(paid)}
    assert len({entry["MessageDeduplicationId"] for entry in entries}) == 4
    cloud.set_types("inventory", events=[PAID], grouped_by="parcel")  # which no event has
    assert "is not what its consumer writes" in support.stderr_of(*TO, "inventory")
    assert sum(len(request["Entries"]) for request in asked) == 4


def test_a_due_event_is_not_sent_before_its_time(cloud: Cloud) -> None:
    times = [(datetime.now(UTC) + timedelta(hours=h)).isoformat() for h in (-1, 1)]
    due = [event("orders#a", n, PAID, time=t, oncedue=times[0]) for n, t in enumerate(times)]
    commit(cloud, "orders#a", *due)
    assert support.numbers(support.stdout_of(*TO, "inventory"))[PAID] == "1"
    assert cloud.take("inventory") == {due[0]: 1}


def test_forged_event_is_not_sent(cloud: Cloud) -> None:
    forged = {**json.loads(event("orders#a", 0, PAID)), "source": "/once/payments"}
    commit(cloud, "orders#a", json.dumps(forged))
    commit(cloud, "orders#b", event("orders#b", 0, PAID))
    assert "is not what its consumer writes" in support.stderr_of(*TO, "inventory")
    assert cloud.take("inventory") == {event("orders#b", 0, PAID): 1}


def test_large_events_are_sent_in_several_calls(cloud: Cloud) -> None:
    events = [OutgoingEvent(f"{n}", "/once/orders", PAID, f"{n}" * 240_000) for n in range(6)]
    asked = support.requests_of("sqs.SendMessageBatch")
    queue_sender(client("sqs"), Deployment.find().consumer("inventory"))(events)
    assert cloud.take("inventory") == Counter(event.body for event in events)
    sizes = [sum(len(entry["MessageBody"]) for entry in request["Entries"]) for request in asked]
    assert sizes == [4 * 240_000, 2 * 240_000]


def test_event_that_the_queue_refuses_ends_the_command(cloud: Cloud, paid: list[str]) -> None:
    support.fail_entries("sqs.SendMessageBatch", support.REFUSED_ENTRY)
    assert "the queue of inventory did not take" in support.stderr_of(*TO, "inventory")


DUE = ("outbox", "list", "--due")


def test_events_that_wait_are_counted_and_the_next_shown_first(cloud: Cloud) -> None:
    now = time.time()
    later, late, soon = cloud.wait_until(now + 7200, now - 300, now + 90)
    shown = support.stdout_of(*DUE)
    lines = shown.splitlines()
    expected = {late: "5 min ago", soon: "in 1 min", later: "in 1 h"}
    assert [line.split(" UTC  ")[1] for line in lines[:3]] == [
        f"{distance:<10}  {name}" for name, distance in expected.items()
    ]
    assert "3 events wait in once-schedules" in lines
    assert "note: 1 event should be published by now" in shown
    found = json.loads(support.stdout_of(*DUE, "--json"))
    assert [each["schedule"] for each in found.pop("next")] == [late, soon, later]
    assert found == {"group": "once-schedules", "waiting": 3, "late": 1, "more": False}


def test_every_page_of_schedules_is_read_up_to_the_limit(cloud: Cloud) -> None:
    support.refuse("scheduler.GetSchedule")
    cloud.wait_until(*(time.time() + 3600 for _ in range(130)))
    foreign = {"Name": "1795336200"}
    support.add_to_answer("scheduler.ListSchedules", lambda a: a["Schedules"].append(foreign))
    shown = support.stdout_of(*DUE)
    assert "and 110 more" in shown
    assert "130 events wait in once-schedules" in shown
    cut = support.stdout_of(*DUE, "--limit", "3")
    assert "note: only 3 schedules were read: more events wait" in cut


@pytest.mark.usefixtures("cloud")
def test_a_service_that_publishes_nothing_later_says_what_adds_it() -> None:
    said = support.stderr_of(*DUE)
    assert "'once' has no schedule group: it publishes nothing later; publishes_later=(" in said
    assert "say which events to list" in support.stderr_of("outbox", "list", code=2)
