"""`outbox republish` through the relay: refused events, failed invocations, and batches."""

import io
from collections import Counter

from once.events.identity import key_hash
from once.names import DeadLetter
from once.ops.aws.clients import ATTEMPTS
from once.ops.outbox import BATCH_RECORDS, stream_batches
from tests.ops.cloud import Cloud
from tests.ops.outboxes import REPUBLISH, commit, commit_each, event, ids, published
from tests.ops.output import numbers, stderr_of, stdout_of
from tests.ops.support import OK, REFUSED_ENTRY, THROTTLED_ENTRY, answer_once, answer_with, run


def test_unreadable_outbox_is_reported_by_its_key_hash_and_others_are_published(
    cloud: Cloud,
) -> None:
    pks = [f"orders#{number}" for number in range(5)]
    commit_each(cloud, *pks)
    commit(cloud, "orders#customer-7", outbox='[{"id": "secret-of-customer-7", "source": 1}]')
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert published(cloud) == ids(*pks)
    assert numbers(result.stdout)["events"] == "5"
    assert f"  {key_hash('orders#customer-7')}\n" in result.stderr
    assert "`once dlq list --consumer outbox_relay` says why" in result.stderr
    assert "customer-7" not in result.output
    [letter] = cloud.relay_dead_letters()
    assert letter["MessageAttributes"][DeadLetter.REASON]["StringValue"] == "unpublishable"


def test_dry_run_reports_unreadable_outboxes_and_writes_no_dead_letter(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a")
    commit(cloud, "orders#b", outbox="no JSON")
    result = run(*REPUBLISH, "2h", "--dry-run")
    assert result.exit_code == 1
    assert numbers(result.stdout)["events"] == "1"
    assert "the outbox of these records cannot be read" in result.stderr
    assert f"  {key_hash('orders#b')}\n" in result.stderr
    assert cloud.relay_dead_letters() == []


def test_forged_events_are_not_published_and_their_record_is_reported_once(cloud: Cloud) -> None:
    pk = "orders#a"
    forged = [event(pk, 1, "payment.captured"), event(pk, 2, source="/once/payments")]
    commit(cloud, pk, event(pk), *forged)
    assert stderr_of(*REPUBLISH, "2h").count(key_hash(pk)) == 1
    assert published(cloud) == ids(pk)
    assert {letter["Body"] for letter in cloud.relay_dead_letters()} == {*forged}


def test_event_that_the_topic_refuses_is_reported_and_throttled_ones_are_repeated(
    cloud: Cloud,
) -> None:
    failed = [{"Id": "0", **REFUSED_ENTRY}, {"Id": "1", **THROTTLED_ENTRY}]
    answer_once("sns.PublishBatch", (OK, {"Successful": [{"Id": "2"}], "Failed": failed}))
    bodies = [event("orders#a", position) for position in range(3)]
    commit(cloud, "orders#a", *bodies)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert cloud.take("orders") == Counter([bodies[1]])
    assert numbers(result.stdout)["events"] == "2"
    assert key_hash("orders#a") in result.stderr


def test_topic_that_throttles_every_attempt_ends_the_command(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a")
    cloud.relay_seconds = 0
    throttled = {"Successful": [], "Failed": [{"Id": "0", **THROTTLED_ENTRY}]}
    answer_with("sns.PublishBatch", lambda params: (OK, throttled))
    said = stderr_of(*REPUBLISH, "2h")
    assert (
        "did not publish all of 1 records in 6 attempts "
        "(NotRelayed: 1 events are not published: Throttled)" in said
    )
    assert "run the same command again" in said
    assert len(cloud.invocations) == ATTEMPTS


def test_relay_that_fails_once_is_invoked_again(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a")
    payload = io.BytesIO(b'{"errorMessage": "timed out"}')
    answer_once("lambda.Invoke", (OK, {"FunctionError": "Unhandled", "Payload": payload}))
    stdout_of(*REPUBLISH, "2h")
    assert published(cloud) == ids("orders#a")


def test_records_are_sent_in_batches_of_the_streams_size(cloud: Cloud) -> None:
    pks = [f"orders#{number}" for number in range(BATCH_RECORDS + 20)]
    commit_each(cloud, *pks)
    stdout_of(*REPUBLISH, "2h")
    assert published(cloud) == ids(*pks)
    assert [len(request["Records"]) for request in cloud.invocations] == [BATCH_RECORDS, 20]


def test_batches_are_kept_below_lambdas_size_limit() -> None:
    # Escaped as JSON, an outbox takes up to twice its size.
    item = {"pk": {"S": "orders#a"}, "commit": {"S": "c"}, "outbox": {"S": '"' * 390_000}}
    assert [len(batch) for batch in stream_batches([item] * 20)] == [6, 6, 6, 2]
