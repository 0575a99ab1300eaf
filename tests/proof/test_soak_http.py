"""Messages of HTTP/1.1: read whole, and named by what they ask for."""

import asyncio
from asyncio import IncompleteReadError, StreamReader

import pytest

from proof.soak.http import headers, operation, read_message

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nends 0\n\r\n3\r\n0\r\n\r\n0\r\n\r\n"
)


def read_all(*parts: bytes) -> list[bytes]:
    """Read what comes in these parts, until the other side closes."""

    async def reading() -> list[bytes]:
        reader = StreamReader()
        for part in parts:
            reader.feed_data(part)
        reader.feed_eof()
        found = []
        while message := await read_message(reader):
            found.append(message)
        return found

    return asyncio.run(reading())


@pytest.mark.parametrize(
    "message",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n\r\n\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + bytes(300_000),
        CHUNKED,
    ],
    ids=["bare", "length", "blank-lines", "large", "chunked"],
)
def test_messages_are_read_one_by_one_and_unchanged(message: bytes) -> None:
    assert read_all(message + message) == [message, message]
    middle = len(message) // 2
    assert read_all(message[:middle], message[middle:]) == [message]


@pytest.mark.parametrize(
    "part", [b"GET /", b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", CHUNKED[:-2]]
)
def test_a_message_that_breaks_off_is_none(part: bytes) -> None:
    with pytest.raises(IncompleteReadError):
        read_all(part)


def test_headers_are_found_whatever_their_case() -> None:
    found = headers(b"POST / HTTP/1.1\r\nAMZ-sdk-Request:attempt=1\r\nHost: a:1\r\n\r\nb: c\r\n")
    assert found == {"amz-sdk-request": "attempt=1", "host": "a:1"}


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\n\r\n{}", "GetItem"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\nAction=PublishBatch&Version=1", "PublishBatch"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\nVersion=1&Action=Publish", "Publish"),
        (b"POST /v2/email/outbound-emails HTTP/1.1\r\n\r\n{}", "POST /v2/email/outbound-emails"),
    ],
)
def test_a_request_is_named_by_what_it_asks_for(request_: bytes, name: str) -> None:
    assert operation(request_) == name
