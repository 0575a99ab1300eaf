"""Captures of every released version: they are kept for weeks, and their keys never change."""

import json
from dataclasses import asdict

import pytest

from once.events.outgoing import ClaimPlace
from once.names import SCHEMA_VERSION
from once.webhooks.capture import Capture, Standing
from once.webhooks.webhook import rebuilt_event
from tests.golden.capture_cases import MADE, new_case, plain
from tests.golden.versions import Item, golden, names

LATER: Item = {"of_a_later_version": {"S": "x"}}
PLACE = ClaimPlace("claims", "webhooks", 4 * 1024 * 1024)


def read_today(item: Item) -> Item:
    """Read a capture with today's code, as JSON."""
    read = asdict(Capture.read(plain(item)))
    return {**read, "body": None if read["body"] is None else item["body"]["B"]}


def test_every_webhook_has_a_case() -> None:
    assert golden(SCHEMA_VERSION, "captures").keys() == MADE.keys(), "run `python -m tests.golden`"


@pytest.mark.parametrize("name", MADE)
def test_a_webhook_has_the_key_and_the_capture_of_its_schema_version(name: str) -> None:
    assert new_case(name) == golden(SCHEMA_VERSION, "captures")[name], (
        "A webhook that was captured before would be new under another key, and captures live for "
        "weeks: let Capture.read understand both forms. Before a release, delete the file and run "
        "`python -m tests.golden`."
    )


@pytest.mark.parametrize(("version", "name"), names("captures"))
def test_todays_code_reads_the_captures_of_every_version(version: int, name: str) -> None:
    kept = golden(version, "captures")[name]["item"]
    read, stored = read_today(kept | LATER), plain(kept)
    expected = stored | {"headers": json.loads(stored["headers"])}
    expected |= {"body": kept["body"]["B"]} if "body" in kept else {}
    assert {each: expected.get(each) or None for each in read} == {
        each: value or None for each, value in read.items()
    }


@pytest.mark.parametrize(("version", "name"), names("captures"))
def test_the_events_of_captures_are_rebuilt(version: int, name: str) -> None:
    case = golden(version, "captures")[name]
    capture = Capture.read(plain(case["item"]))
    if capture.standing is not Standing.HANDED_ON:
        return
    made = MADE[name]
    event, _ = rebuilt_event(capture, made.body, made.endpoint, claims=PLACE)
    assert [json.loads(event.body)] == case["events"]
