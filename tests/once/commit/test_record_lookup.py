"""Look-up of dedup records: an answer for each key, or an error."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once.commit.dedup_record import read_records
from once.errors import OutcomeUnknown

KEYS: list[Any] = [{"pk": {"S": "a"}}, {"pk": {"S": "b"}}]
RECORDS: list[Any] = [key | {"commit": {"S": "c"}} for key in KEYS]
DENIED = ClientError({"Error": {"Code": "AccessDeniedException"}}, "BatchGetItem")


class Database:
    """A client with these answers, one after the other; an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self._answers = iter(answers)
        self.requested: list[Any] = []

    def batch_get_item(self, RequestItems: Any) -> Any:  # noqa: N803
        self.requested.append(RequestItems["dedup"]["Keys"])
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look_up(self, *pks: str) -> dict[str, Any]:
        return read_records(self, "dedup", pks)  # type: ignore[arg-type]


def throttled(*keys: Any) -> dict[str, Any]:
    """An answer without the table, and with these keys unprocessed."""
    return {"Responses": {}, "UnprocessedKeys": {"dedup": {"Keys": [*keys]}}}


def test_no_keys_make_no_request() -> None:
    assert Database().look_up() == {}


def test_records_are_found_by_their_keys() -> None:
    database = Database({"Responses": {"dedup": RECORDS[1:]}})
    assert database.look_up("a", "b") == {"b": RECORDS[1]}
    assert database.requested == [KEYS]


def test_unprocessed_keys_are_requested_again() -> None:
    database = Database(throttled(*KEYS), {"Responses": {"dedup": RECORDS}, "UnprocessedKeys": {}})
    assert database.look_up("a", "b") == {"a": RECORDS[0], "b": RECORDS[1]}
    assert database.requested == [KEYS, KEYS]


def test_after_three_answers_without_capacity_the_outcome_is_unknown() -> None:
    database = Database(*[throttled(KEYS[1])] * 4)
    text = "^no answer, and DynamoDB had no capacity to read the records back$"
    with pytest.raises(OutcomeUnknown, match=text):
        database.look_up("a", "b")
    assert database.requested == [KEYS, KEYS[1:], KEYS[1:]]


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (DENIED, "ClientError AccessDeniedException"),
        (ReadTimeoutError(endpoint_url="x"), "ReadTimeoutError"),
    ],
)
def test_an_error_is_an_unknown_outcome_that_names_it(error: Exception, named: str) -> None:
    with pytest.raises(OutcomeUnknown, match=f"^no answer, and no record: {named}"):
        Database(error).look_up("a")
