"""What the fuzzers have found: each input stays here."""

import json
from typing import Any

import pytest

from once.schema import DeadLetter
from proof.fuzz.parsers import batch


def forged(text: str) -> str:
    """Attributes as a dead letter keeps them, written by whoever sent the message."""
    return json.dumps({"tenant": {"stringValue": text, "dataType": "String"}})


def packed(body: str, text: str) -> str:
    return json.dumps({"body": body, "attributes": json.loads(forged(text))})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(DeadLetter.ATTRIBUTES, ["String", forged("\ud800")], id="lone surrogate"),
        pytest.param(DeadLetter.ATTRIBUTES, ["String", forged("\ufffe")], id="no character"),
        pytest.param(DeadLetter.ORIGINAL_GZIP, ["Gzip", packed("{", "\ud800")], id="packed"),
        pytest.param(DeadLetter.ORIGINAL_GZIP, ["Gzip", packed("", "x")], id="empty body"),
    ],
)
def test_what_sqs_refuses_hides_in_attributes_and_is_quarantined(
    name: str, value: list[str]
) -> None:
    message: dict[str, Any] = {"body": "{", "attributes": {name: value}, "receives": 1}
    batch.check({"consumer": "orders", "messages": [message], "answers": []})
