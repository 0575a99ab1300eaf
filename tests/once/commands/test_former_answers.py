"""Answers of the function that a command replaces, as its former records keep them."""

import base64
import json
from typing import Any

import pytest
from msgspec import Struct

from once import Answer, Commands, FormerRecords, Transaction
from once.commands.answer import Reply
from once.errors import InvalidWrite, RequestRefused
from once.testing import FakeAws


class Count(Struct, frozen=True):
    name: str


TABLES = {"counters": "name", "former": "id"}
COUNT, FAILING = Count("c"), Count("failing")
JSON = {"content-type": "application/json"}


def counting(**more: Any) -> FakeAws:
    """Return the tables of a function whose former one had the caller's key as its key."""
    api = Commands("counting")
    counters, former = api.table("counters"), api.table("former")
    declared = FormerRecords(former, lambda event: (event.id,), **more)

    @api.handles("count", Count, former=declared)
    def count(command: Count, tx: Transaction) -> Answer:
        if command == FAILING:
            raise RuntimeError("the former function has changed what this handler reads")
        tx.update(counters, {"name": command.name}, add={"amount": 1})
        return Answer({"n": 1}, status=201, headers={"location": "/c"})

    return FakeAws(api, TABLES)


@pytest.mark.parametrize("command", [COUNT, FAILING])  # found by the commit, and by a look-up
@pytest.mark.parametrize(
    ("returned", "status", "headers", "body"),
    [
        (None, 204, {}, ""),
        ({"n": 1}, 200, JSON, '{"n": 1}'),
        ([1], 200, JSON, "[1]"),
        ({"statusCode": 409}, 409, {}, ""),
        ({"statusCode": 201, "headers": {"ETag": "e"}, "body": "é"}, 201, {"etag": "e"}, "é"),
        (
            {"statusCode": 200, "headers": None, "multiValueHeaders": {"Vary": ["a", "b"]}},
            *(200, {"vary": "a, b"}, ""),
        ),
        (
            {
                "statusCode": 200,
                "body": base64.b64encode(b"{}").decode(),
                "isBase64Encoded": True,
            },
            *(200, {}, "{}"),
        ),
    ],
)
def test_a_former_answer_is_repeated(
    returned: Any, status: int, headers: dict[str, str], body: str, command: Count
) -> None:
    with counting(answer="data") as aws:
        aws.given("former", {"id": "k", "status": "done", "data": json.dumps(returned)})
        expected = Reply(status, headers, body.encode(), repeated=True)
        assert aws.run("count", command, key="k") == expected
        assert aws.items("counters") == []


def test_the_former_function_finds_the_answer_of_a_command() -> None:
    with counting(answer="data") as aws:
        reply = aws.run("count", COUNT, key="k")
        answer = json.loads(aws.items("former")[0]["data"])
        headers = {**JSON, "location": "/c"}
        assert answer == {"statusCode": 201, "headers": headers, "body": reply.body.decode()}


@pytest.mark.parametrize("answer", [None, "data"])
def test_a_former_record_without_an_answer_is_an_error_and_no_second_effect(
    answer: str | None,
) -> None:
    with counting(answer=answer) as aws:
        aws.given("former", {"id": "k", "status": "done"})
        with pytest.raises(RequestRefused, match="keeps no answer"):
            aws.run("count", COUNT, key="k")
        assert aws.items("counters") == []


def test_two_scopes_with_one_former_key_never_share_an_answer_of_once() -> None:
    with counting(answer="data") as aws:
        aws.run("count", COUNT, key="k", scope="mine")
        with pytest.raises(InvalidWrite, match="another event was committed under the same former"):
            aws.run("count", COUNT, key="k", scope="theirs")
