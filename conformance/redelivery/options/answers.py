"""The option `--answer`: the answer to HTTP calls."""

import json
import re
from pathlib import Path
from typing import Any

from redelivery.subject import Answer

ANSWER_FORM = "[METHOD ]URL[=STATUS[:JSON or file]]"
_FORM = re.compile(
    r"(?:(?P<method>[A-Za-z]+) +)?(?P<url>https?://\S+?)(?:=(?P<status>\d{3})(?::(?P<body>.*))?)?",
    re.DOTALL,
)


def parse_answer(text: str) -> Answer:
    """Return an answer: `POST https://pay.example/charges=200:{"id": "ch_1"}`.

    Raises:
        ValueError: the text does not have the form, or its body is neither JSON nor a file.
    """
    match = _FORM.fullmatch(text.strip())
    if not match:
        raise ValueError(f"write {ANSWER_FORM}, for example 'POST https://pay.example/charges=200'")
    status = int(match["status"] or 200)
    method = (match["method"] or "").upper()
    if not match["body"]:
        return Answer(match["url"], status, method=method)
    return Answer(match["url"], status, _body(match["body"]), method)


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _file(text)


def _file(name: str) -> Any:
    try:
        content = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        raise ValueError("the text after the status is neither JSON nor a readable file") from error
    try:
        return json.loads(content)
    except ValueError:
        return content
