"""The log of a message: its ids, and the reason for its result."""

from typing import Any

import pytest

from once.events.dedup_key import key_hash
from once.testing import inject, refused
from tests.once.batch.batches import SECOND, message
from tests.once.batch.function import Function
from tests.once.support import Log, record

FIELDS = ("message", "reason", "error", "message_id", "receive_count", "key_hash")
DENIED = refused("AccessDenied", status=403)
LINES: dict[str, tuple[str, list[Any], dict[str, str]]] = {
    "retried": ("later", [], {"message": "will be retried", "error": "RetryableError"}),
    "quarantined": (
        "poison",
        [],
        {"message": "quarantined", "reason": "permanent", "error": "PermanentError"},
    ),
    "not quarantined": (
        "poison",
        [DENIED],
        {"message": "not quarantined: ClientError AccessDenied", "error": "PermanentError"},
    ),
    "duplicate": ("known", [], {"message": "duplicate"}),
}


def logged(function: Function, sent: dict[str, Any], *faults: Any) -> dict[str, Any]:
    """The first line about a message; its dead letter meets these faults."""
    log, is_reported = Log(function.aws), "later" in sent["body"] or faults
    with inject(function.aws.runtime.sqs, "SendMessage", *faults) as left:
        function.run(sent, reports=["m-1"] if is_reported else [])
    assert left == []
    line = log.lines()[0]
    return {name: line[name] for name in FIELDS if name in line}


@pytest.mark.parametrize(("name", "faults", "expected"), LINES.values(), ids=LINES)
def test_a_log_line_identifies_the_message_and_says_its_result(
    function: Function, name: str, faults: list[Any], expected: dict[str, str]
) -> None:
    function.run(*[message("known")] * (name == "known"))
    ids = {
        "message_id": "m-1",
        "receive_count": 2,
        "key_hash": key_hash(f"notes#event#/test#{name}"),
    }
    sent = message(name, message_id="m-1", **SECOND)
    assert logged(function, sent, *faults) == expected | ids


@pytest.mark.parametrize("body", ["{}", "[]"])
def test_a_message_without_a_key_is_logged_with_its_message_id(
    function: Function, body: str
) -> None:
    found = logged(function, record(body, "m-1"))
    assert "key_hash" not in found
    assert found["message_id"] == "m-1"
