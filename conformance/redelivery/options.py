"""The options of `redelivery check`, as text, turned into a `Subject`.

Each parser returns what one text means. Its `ValueError` says how to correct the text, and all
mistakes are reported together.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from redelivery.faults import Fault
from redelivery.subject import Answer, Subject, Table

T = TypeVar("T")

TABLE_FORM = "name:key[:sort_key][,ttl=attribute][,compared|,not-compared]"
ANSWER_FORM = "[METHOD ]URL[=STATUS[:JSON or file]]"

_ANSWER = re.compile(
    r"(?:(?P<method>[A-Za-z]+) +)?(?P<url>https?://\S+?)(?:=(?P<status>\d{3})(?::(?P<body>.*))?)?",
    re.DOTALL,
)
_DURATION = re.compile(r"(\d{1,9})([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

_LISTS = {
    "queue": "queues",
    "topic": "topics",
    "bucket": "buckets",
    "keep": "keep",
    "ignore": "ignore",
    "repeatable": "repeatable",
}
"""Options that are lists of names, with their fields."""

_DURATIONS = {
    "timeout": "timeout_seconds",
    "visibility": "visibility_seconds",
    "horizon": "horizon_seconds",
}


class OptionMistakes(Exception):
    """Some options are wrong.

    Attributes:
        mistakes: one sentence each: the option, what is wrong, how to correct it.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


def subject_from(given: Mapping[str, Any]) -> Subject:
    """Return the subject.

    Args:
        given: the options' values by the names of the command's parameters.

    Raises:
        OptionMistakes: some options are wrong.
    """
    mistakes: list[str] = []

    if not given["root"].is_dir():
        mistakes.append(
            f"--root '{given['root']}': there is no such folder; give the one with the handler"
        )
    if not given["event"]:
        mistakes.append("--event: give at least one message, for example --event events/order.json")
    fields: dict[str, Any] = {
        "events": tuple(_parsed(mistakes, "--event", given["event"], parse_event)),
        "environment": dict(_parsed(mistakes, "--env", given["env"], parse_pair)),
        "answers": tuple(_parsed(mistakes, "--answer", given["answer"], parse_answer)),
        "skip": tuple(_parsed(mistakes, "--skip", given["skip"], parse_fault)),
        **{field: tuple(given[option]) for option, field in _LISTS.items()},
    }
    tables = _parsed(mistakes, "--table", given["table"], parse_table)
    items = dict(_parsed(mistakes, "--items", given["items"], parse_items))
    names = Counter(table.name for table in tables)
    mistakes += [
        f"--table {name}: declared twice; give all of it in one option"
        for name, times in names.items()
        if times > 1
    ]
    mistakes += [
        f"--items {name}: no such table; declare it with --table {name}:KEY"
        for name in items.keys() - names.keys()
    ]
    for option, field in _DURATIONS.items():
        if given[option]:  # the others have the defaults of `Subject`
            for seconds in _parsed(mistakes, f"--{option}", [given[option]], parse_duration):
                fields[field] = seconds
    _parsed(mistakes, "--only", given["only"], parse_fault)
    if given["replay"] and given["as_json"]:
        mistakes.append("--replay prints the course of one scenario as text: leave out --json")
    if mistakes:
        raise OptionMistakes(mistakes)
    return Subject(
        given["handler"],
        root=given["root"].absolute(),
        tables=tuple(replace(table, items=items.get(table.name, ())) for table in tables),
        key=given["key"],
        batch_size=given["batch_size"],
        batch_failures=not given["no_batch_failures"],
        fifo=given["fifo"],
        max_receives=given["max_receives"],
        **fields,
    )


def _parsed(
    mistakes: list[str], option: str, texts: Iterable[str], parse: Callable[[str], T]
) -> list[T]:
    """Return the parsed texts of an option; a `ValueError` becomes a mistake."""
    values: list[T] = []
    for text in texts:
        try:
            values.append(parse(text))
        except ValueError as error:
            mistakes.append(f"{option} {text!r}: {error}")
    return values


def parse_fault(text: str) -> Fault:
    """Return the fault of this name; raise ValueError if there is none."""
    if text in set(Fault):
        return Fault(text)
    close = get_close_matches(text, list(Fault), n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise ValueError(f"there is no such fault; {suggestion}`redelivery faults` lists them")


def parse_duration(text: str) -> int:
    """Return the seconds of `90`, `90s`, `15m`, `12h` or `14d`; raise ValueError for others."""
    match = _DURATION.fullmatch(text)
    if not match or not int(match[1]):
        raise ValueError("write a number above 0 and a unit, for example 90s, 15m, 12h or 14d")
    return int(match[1]) * _SECONDS[match[2]]


def parse_pair(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`; raise ValueError without a name or equals sign."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError("write NAME=VALUE")
    return name, value


def parse_event(text: str) -> Any:
    """Return a sample: the path of a file, or for `-` the content of standard input.

    Raises:
        ValueError: there is no such file, or standard input is empty.
    """
    if text != "-":
        path = Path(text).absolute()
        if not path.is_file():
            raise ValueError(
                "there is no such file; give a message's body or an SQS event in a file"
            )
        return path
    piped = sys.stdin.read()
    if not piped.strip():
        raise ValueError("standard input is empty; pipe a message's body or an SQS event")
    try:
        return json.loads(piped)
    except ValueError:
        return piped


def parse_answer(text: str) -> Answer:
    """Return an answer: `POST https://pay.example/charges=200:{"id": "ch_1"}`.

    Raises:
        ValueError: the text does not have the form, or its body is neither JSON nor a file.
    """
    match = _ANSWER.fullmatch(text.strip())
    if not match:
        raise ValueError(f"write {ANSWER_FORM}, for example 'POST https://pay.example/charges=200'")
    body = {"body": _body(match["body"])} if match["body"] else {}
    method = (match["method"] or "").upper()
    return Answer(match["url"], int(match["status"] or 200), method=method, **body)


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        content = Path(text).read_bytes()
    except (OSError, ValueError) as error:
        raise ValueError("the text after the status is neither JSON nor a readable file") from error
    try:
        return json.loads(content)
    except ValueError:
        return content


def parse_table(text: str) -> Table:
    """Return a table. `S`, `N` or `B` after an attribute is its type: `days:day:N`.

    Raises:
        ValueError: the text does not have the form.
    """
    keys, *settings = text.split(",")
    name, *parts = keys.split(":")
    attributes: list[str] = []
    for part in parts:
        if part in {"S", "N", "B"} and attributes and ":" not in attributes[-1]:
            attributes[-1] += f":{part}"
        else:
            attributes.append(part)
    if not name or not all(parts) or len(attributes) not in {1, 2}:
        raise ValueError(f"write {TABLE_FORM}, for example orders:order_id")
    options = dict(_setting(setting) for setting in settings)
    key, sort_key = [*attributes, ""][:2]
    return Table(name, key, sort_key, **options)


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name == "ttl" and value:
        return ("ttl", value)
    if text in {"compared", "not-compared"}:
        return ("compared", text == "compared")
    raise ValueError(f"{text!r} is not ttl=attribute, compared or not-compared")


def parse_items(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Return a table's name and its items, read from a file: `stock=stock.json`.

    Raises:
        ValueError: the text does not have the form, or the file holds no list of objects.
    """
    name, _, path = text.partition("=")
    if not name or not path:
        raise ValueError("write table=file.json")
    try:
        # boto3 takes no floats.
        items = json.loads(Path(path).read_text("utf-8"), parse_float=Decimal)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"the file holds no JSON: {error}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("the file must hold a JSON list of objects, one for each item")
    return name, items
