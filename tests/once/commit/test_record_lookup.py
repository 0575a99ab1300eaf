"""Asking for dedup records: each key is answered in the end, or an error says why it is not."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once.commit._record_lookup import look_up
from once.errors import OutcomeUnknown

KEYS: list[Any] = [{"pk": {"S": "notes#a"}}, {"pk": {"S": "notes#b"}}]
RECORDS: list[Any] = [key | {"commit": {"S": "c"}} for key in KEYS]
DENIED = ClientError({"Error": {"Code": "AccessDeniedException"}}, "BatchGetItem")


class Database:
    """A client with these answers, one after the other; an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self._answers = iter(answers)
        self.asked: list[Any] = []

    def batch_get_item(self, RequestItems: Any) -> Any:  # noqa: N803
        self.asked.append(RequestItems["dedup"]["Keys"])
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look_up(self, *pks: str) -> dict[str, Any]:
        return look_up(self, "dedup", pks)  # type: ignore[arg-type]


def busy(*keys: Any) -> dict[str, Any]:
    """An answer that leaves these keys for later, and has nothing on any table."""
    return {"Responses": {}, "UnprocessedKeys": {"dedup": {"Keys": [*keys]}}}


def test_without_keys_nothing_is_asked() -> None:
    database = Database()
    assert database.look_up() == {}
    assert database.asked == []


def test_what_was_found_is_told_by_its_key_and_what_was_not_is_left_out() -> None:
    database = Database({"Responses": {"dedup": RECORDS[1:]}})
    assert database.look_up("notes#a", "notes#b") == {"notes#b": RECORDS[1]}
    assert database.asked == [KEYS]


def test_an_answer_that_has_nothing_on_the_table_is_asked_for_the_rest() -> None:
    database = Database(busy(*KEYS), {"Responses": {"dedup": RECORDS}, "UnprocessedKeys": {}})
    assert database.look_up("notes#a", "notes#b") == {"notes#a": RECORDS[0], "notes#b": RECORDS[1]}
    assert database.asked == [KEYS, KEYS]


def test_after_three_answers_without_capacity_the_outcome_is_unknown() -> None:
    database = Database(*[busy(KEYS[1])] * 4)
    with pytest.raises(OutcomeUnknown) as raised:
        database.look_up("notes#a", "notes#b")
    assert database.asked == [KEYS, KEYS[1:], KEYS[1:]]
    assert str(raised.value) == ("no answer, and DynamoDB had no capacity to read the records back")


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (DENIED, "ClientError AccessDeniedException"),
        (ReadTimeoutError(endpoint_url="x"), "ReadTimeoutError"),
    ],
    ids=["denied", "no answer"],
)
def test_an_error_is_an_unknown_outcome_that_names_it(error: Exception, named: str) -> None:
    with pytest.raises(OutcomeUnknown) as raised:
        Database(error).look_up("notes#a")
    assert str(raised.value).startswith(f"no answer, and no record: {named}")
