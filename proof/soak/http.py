"""HTTP/1.1 as far as the AWS SDKs and their servers speak it: whole messages, one after another."""

import re
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Mapping

_END = b"\r\n\r\n"
_LINE = b"\r\n"
_ACTION = re.compile(rb"(?:^|&)Action=(\w+)", re.MULTILINE)


async def read_message(reader: StreamReader) -> bytes:
    """Read one request or answer as it came; empty if the other side has closed in between two.

    Raises:
        asyncio.IncompleteReadError: it closed in the middle of one.
    """
    try:
        head = await reader.readuntil(_END)
    except IncompleteReadError as error:
        if error.partial:
            raise
        return b""
    found = headers(head)
    if found.get("transfer-encoding", "").lower() == "chunked":
        return head + await _chunks(reader)
    return head + await reader.readexactly(int(found.get("content-length", 0)))


def headers(message: bytes) -> Mapping[str, str]:
    """Return the headers of a request or an answer, by their names in lower case."""
    lines = message.partition(_END)[0].decode("latin-1").splitlines()[1:]
    pairs = (line.partition(":") for line in lines)
    return {name.lower(): value.strip() for name, _, value in pairs}


def operation(request: bytes) -> str:
    """Return what a request asks of AWS, in each protocol's way of saying so."""
    if target := headers(request).get("x-amz-target"):
        return target.rpartition(".")[2]
    if action := _ACTION.search(request):
        return action[1].decode()
    return " ".join(request.split(b" ", 2)[i].decode() for i in (0, 1))


async def _chunks(reader: StreamReader) -> bytes:
    body = b""
    while True:
        line = await reader.readuntil(_LINE)
        body += line + await reader.readexactly(int(line, 16) + len(_LINE))
        if not int(line, 16):
            return body
