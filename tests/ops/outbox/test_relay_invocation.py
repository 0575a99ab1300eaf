"""`outbox republish` through the relay: what it refuses, how it fails, and what it is handed."""

import io
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from once.events.dedup_key import key_hash
from once.ops.aws.batch_calls import ATTEMPTS
from once.ops.outbox.republish import BATCH_RECORDS, stream_batches
from tests.ops.outboxes import REPUBLISH, event, ids, numbers, published
from tests.ops.support import OK, Cloud, answer_with, refusal, run

THROTTLED = {"Code": "Throttled", "SenderFault": False}
REFUSED = {"Code": "InvalidParameter", "SenderFault": True}


def test_unreadable_outbox_is_told_by_the_keys_hash_after_all_others_were_published(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    pks = [f"orders#{number}" for number in range(5)]
    for pk in pks:
        commit(pk, event(pk))
    commit("orders#customer-7", outbox='[{"id": "secret-of-customer-7", "source": 1}]')
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert published(cloud) == ids(*pks)
    assert numbers(result.stdout)["events"] == "5"
    assert f"  {key_hash('orders#customer-7')}\n" in result.stderr
    assert "`once dlq list --consumer outbox_relay` says why" in result.stderr
    assert "customer-7" not in result.output
    [letter] = cloud.relay_dead_letters()
    assert letter["MessageAttributes"]["once-reason"]["StringValue"] == "unpublishable"


def test_dry_run_tells_of_unreadable_outboxes_and_leaves_no_dead_letter(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("orders#a"))
    commit("orders#b", outbox="no JSON")
    result = run(*REPUBLISH, "2h", "--dry-run")
    assert result.exit_code == 1
    assert numbers(result.stdout)["events"] == "1"
    assert "the outbox of these records cannot be read" in result.stderr
    assert f"  {key_hash('orders#b')}\n" in result.stderr
    assert cloud.relay_dead_letters() == []


def test_forged_event_is_not_published_and_its_record_is_told_once(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    pk = "orders#a"
    forged = [event(pk, 1, "payment.captured"), event(pk, 2, source="/once/payments")]
    commit(pk, event(pk), *forged)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert published(cloud) == ids(pk)
    assert result.stderr.count(key_hash(pk)) == 1
    assert {letter["Body"] for letter in cloud.relay_dead_letters()} == {*forged}


def test_event_that_the_topic_refuses_is_told_and_others_are_tried_again(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    failed = [{"Id": "0", **REFUSED}, {"Id": "1", **THROTTLED}]
    answers = [(OK, {"Successful": [{"Id": "2"}], "Failed": failed})]
    answer_with("sns.PublishBatch", lambda params: answers.pop() if answers else None)
    bodies = [event("orders#a", position) for position in range(3)]
    commit("orders#a", *bodies)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert cloud.take("orders") == Counter([bodies[1]])
    assert numbers(result.stdout)["events"] == "2"
    assert key_hash("orders#a") in result.stderr


def test_topic_that_takes_nothing_ends_the_command_with_the_remedy(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("orders#a"))
    cloud.relay_seconds = 0

    def answer(params: Any) -> Any:
        return OK, {"Successful": [], "Failed": [{"Id": "0", **THROTTLED}]}

    answer_with("sns.PublishBatch", answer)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert (
        "did not publish all of 1 records in 6 attempts "
        "(NotRelayed: 1 events are not published: Throttled)" in result.stderr
    )
    assert "run the same command again" in result.stderr
    assert len(cloud.invocations) == ATTEMPTS


def test_relay_that_fails_once_is_invoked_again(cloud: Cloud, commit: Callable[..., None]) -> None:
    commit("orders#a", event("orders#a"))
    died = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage": "timed out"}')}
    answers = [(OK, died)]
    answer_with("lambda.Invoke", lambda params: answers.pop() if answers else None)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 0
    assert published(cloud) == ids("orders#a")


def test_many_records_are_handed_over_in_batches_that_lambda_takes(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    pks = [f"orders#{number}" for number in range(BATCH_RECORDS + 20)]
    for pk in pks:
        commit(pk, event(pk))
    assert run(*REPUBLISH, "2h").exit_code == 0
    assert published(cloud) == ids(*pks)
    assert [len(request["Records"]) for request in cloud.invocations] == [BATCH_RECORDS, 20]


def test_a_batch_ends_where_its_request_would_be_too_large() -> None:
    # Escaped as JSON, an outbox takes up to twice its size.
    item = {"pk": {"S": "orders#a"}, "commit": {"S": "c"}, "outbox": {"S": '"' * 390_000}}
    found = [*stream_batches([item] * 20)]
    assert [len(batch) for batch in found] == [6, 6, 6, 2]
    assert all(len(json.dumps({"Records": batch})) < 6 * 1024 * 1024 for batch in found)


def test_an_outbox_of_bytes_is_handed_over_as_the_stream_does() -> None:
    item = {"pk": {"S": "orders#a"}, "commit": {"S": "c"}, "outbox": {"B": b"x"}}
    [[record]] = stream_batches([item])
    assert record["dynamodb"]["NewImage"]["outbox"] == {"B": "eA=="}


def test_relay_that_may_not_be_invoked_is_told_with_the_remedy(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("orders#a"))
    answer_with("lambda.Invoke", lambda params: refusal("AccessDeniedException", "no"))
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert "have this action granted" in result.stderr
