"""Commands on a renamed consumer: queues and log have its new name, keys and source its first."""

import pytest

from once.names import Reason
from tests.ops.outboxes import REPUBLISH, commit_each, ids, published
from tests.ops.output import stdout_of, words
from tests.ops.tracing import Saga, actions, body, placed


@pytest.fixture
def renamed(saga: Saga) -> Saga:
    """The saga, with `warehouse` deployed beside `inventory`, its earlier name."""
    saga.cloud.deploy("warehouse", renamed_from="inventory")
    saga.logs.create_log_group(logGroupName="/aws/lambda/once-warehouse")
    saga.logs.create_log_stream(logGroupName="/aws/lambda/once-warehouse", logStreamName="s")
    return saga


def test_a_letter_of_an_event_that_its_first_name_committed_is_a_duplicate(renamed: Saga) -> None:
    event = placed("o-1")
    renamed.commit("inventory", event)
    renamed.cloud.bury("warehouse", body(event), reason=Reason.RETRIES_EXHAUSTED)
    renamed.cloud.bury("warehouse", body(placed("o-2")), reason=Reason.RETRIES_EXHAUSTED)
    judged = words(stdout_of("dlq", "redrive", "--consumer", "warehouse", "--dry-run"))
    assert judged.count("acknowledged as a duplicate") == 1


def test_trace_finds_the_records_of_its_first_name_and_the_logs_of_both(renamed: Saga) -> None:
    event = placed("o-1")
    renamed.commit("orders", event)
    renamed.commit("inventory", event)
    key_hash = renamed.hash("inventory", event)
    for consumer in ("inventory", "warehouse"):
        renamed.log(consumer, "duplicate", key_hash=key_hash, message_id="m")
    assert sorted(actions(event.id, "--source", "/shop")) == [
        ("inventory", "committed"),
        ("inventory", "duplicate"),
        ("orders", "committed"),
        ("warehouse", "duplicate"),
    ]
    assert ("inventory", "committed") in actions(renamed.pk("inventory", event))


def test_events_that_its_first_name_committed_are_republished(renamed: Saga) -> None:
    commit_each(renamed.cloud, "inventory#a", age=1)
    commit_each(renamed.cloud, "orders#b", age=1)
    stdout_of(*REPUBLISH, "2h", "--consumer", "warehouse")
    assert published(renamed.cloud) == ids("inventory#a")
