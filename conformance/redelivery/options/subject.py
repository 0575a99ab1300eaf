"""The subject that the options describe."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from redelivery.faults import Fault
from redelivery.options.answers import parse_answer
from redelivery.options.durations import parse_duration
from redelivery.options.events import parse_event
from redelivery.options.mistakes import Mistakes
from redelivery.options.pairs import parse_pair
from redelivery.options.tables import parse_items, parse_table
from redelivery.subject import Subject, Table

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


def subject_from(given: Mapping[str, Any]) -> Subject:
    """Return the subject.

    Args:
        given: the options' values by the names of the command's parameters.

    Raises:
        OptionMistakes: some options are wrong.
    """
    mistakes = Mistakes()
    fields = {
        **_samples(given, mistakes),
        "environment": dict(mistakes.parse("--env", given["env"], parse_pair)),
        "tables": _tables(given, mistakes),
        "answers": tuple(mistakes.parse("--answer", given["answer"], parse_answer)),
        "skip": tuple(mistakes.parse("--skip", given["skip"], parse_fault)),
        **{field: tuple(given[option]) for option, field in _LISTS.items()},
        **_numbers(given, mistakes),
    }
    mistakes.parse("--only", given["only"], parse_fault)
    if given["replay"] and given["as_json"]:
        mistakes.add("--replay prints the course of one scenario as text: leave out --json")
    mistakes.raise_if_any()
    return Subject(
        given["handler"],
        root=given["root"].absolute(),
        key=given["key"],
        batch_size=given["batch_size"],
        batch_failures=not given["no_batch_failures"],
        fifo=given["fifo"],
        max_receives=given["max_receives"],
        **fields,
    )


def parse_fault(text: str) -> Fault:
    """Return the fault of this name.

    Raises:
        ValueError: there is none.
    """
    if text in set(Fault):
        return Fault(text)
    close = get_close_matches(text, list(Fault), n=1)
    raise ValueError(f"there is no such fault; {_suggestion(close)}`redelivery faults` lists them")


def _suggestion(close: list[Any]) -> str:
    return f"did you mean {close[0]}? " if close else ""


def _samples(given: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    root = given["root"]
    if not root.is_dir():
        mistakes.add(f"--root '{root}': there is no such folder; give the one with the handler")
    if not given["event"]:
        mistakes.add("--event: give at least one message, for example --event events/order.json")
    return {"events": tuple(mistakes.parse("--event", given["event"], parse_event))}


def _numbers(given: Mapping[str, Any], mistakes: Mistakes) -> dict[str, int]:
    """Return the durations that were given; the others have the defaults of `Subject`."""
    parsed = {
        field: mistakes.parse(f"--{option}", [given[option]], parse_duration)
        for option, field in _DURATIONS.items()
        if given[option]
    }
    return {field: values[0] for field, values in parsed.items() if values}


def _tables(given: Mapping[str, Any], mistakes: Mistakes) -> tuple[Table, ...]:
    tables = mistakes.parse("--table", given["table"], parse_table)
    items = dict(mistakes.parse("--items", given["items"], parse_items))
    names = Counter(table.name for table in tables)
    for name in (name for name, times in names.items() if times > 1):
        mistakes.add(f"--table {name}: declared twice; give all of it in one option")
    for name in items.keys() - names.keys():
        mistakes.add(f"--items {name}: no such table; declare it with --table {name}:KEY")
    return tuple(replace(table, items=items.get(table.name, ())) for table in tables)
