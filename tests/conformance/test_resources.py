"""A declared resource that AWS refuses is a mistake of the subject."""

from pathlib import Path
from typing import Any

import pytest

from redelivery import SubjectError, Table
from redelivery.examination import examine
from tests.conformance.handler_source import subject


def unready() -> None:
    raise ConnectionError("no server")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"queues": ["two words"]}, "queue two words cannot be created: .*alphanumeric"),
        ({"buckets": ["b"]}, "bucket b cannot be created: .*InvalidBucketName"),
        (
            {"tables": [Table("orders", "id", items=[{"id": "1", "price": 1.5}])]},
            "table orders cannot be created: Float types are not supported",
        ),
        (
            {"tables": [Table("orders", "id", items=[{"order": "1"}])]},
            "table orders cannot be created: .*ValidationException",
        ),
        ({"set_up": unready}, r"set_up fails: ConnectionError\('no server'\)"),
    ],
)
def test_the_error_names_what_cannot_be_created(
    tmp_path: Path, declared: dict[str, Any], message: str
) -> None:
    given = subject(tmp_path, "def handler(event, context): ...", **declared)
    with pytest.raises(SubjectError, match=message):
        examine(given)
