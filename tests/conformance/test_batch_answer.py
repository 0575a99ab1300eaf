"""Lambda's SQS mapping and the answers of a function."""

from typing import Any

import pytest

from redelivery.world.queue import failed_ids

BATCH = [{"messageId": "a"}, {"messageId": "b"}]


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (None, set()),
        ({}, set()),
        ("done", set()),
        ({"batchItemFailures": []}, set()),
        ({"batchItemFailures": None}, set()),
        ({"batchItemFailures": [{"itemIdentifier": "a"}]}, {"a"}),
        ({"batchItemFailures": [{"itemIdentifier": "unknown"}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": None}]}, {"a", "b"}),
        ({"batchItemFailures": [{"wrong": "a"}]}, {"a", "b"}),
        ({"batchItemFailures": "a"}, {"a", "b"}),
    ],
)
def test_messages_that_come_again(answer: Any, failed: set[str]) -> None:
    assert set(failed_ids(answer, BATCH, partial=True)) == failed


def test_without_report_batch_item_failures_every_answer_is_success() -> None:
    answer = {"batchItemFailures": [{"itemIdentifier": "a"}]}
    assert set(failed_ids(answer, BATCH, partial=False)) == set()
