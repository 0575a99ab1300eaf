"""The pages of dead letters: groups, lists and single letters, whatever the letters hold."""

import html
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from once.names import RELAY
from once.ops.aws.clients import client
from once.ops.console import dead_letters
from once.ops.console.dead_letters import BUCKETS, histogram
from once.ops.console.state import ConsoleState
from once.ops.dead_letters.search import QueueWalk
from tests.ops.console.letters.conftest import words
from tests.ops.dead_letters.test_any_letter import records, time_out_of_range
from tests.ops.hostile import Forged, Mess, letters, quick
from tests.ops.letters import Shop
from tests.ops.notes import KEY, note
from tests.ops.support import requests_of

BACKGROUND = {"sec-fetch-dest": "empty"}


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "FRESH_SECONDS", -1)


def test_letters_that_failed_alike_are_one_group_with_their_verdicts(
    browser: TestClient, shop: Shop
) -> None:
    for number in range(3):
        shop.dead_letter(note(f"a{number}"), error=ValueError(f"order 7f{number} has no price"))
    shop.dead_letter(note("b"), error=KeyError("sku"))
    shop.dead_letter("{")
    text = browser.get("dead-letters").text
    assert text.count('<th scope="row">orders</th>') == 3
    assert "Unexpected: ValueError at meet:…: order … has no price" in text
    assert 'aria-label="3 dead letters from 20' in text
    assert "3 safe" in words(text)
    assert "1 would come back" in words(text)
    assert shop.hidden() == 0


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("", 4),
        ("?consumer=orders", 3),
        (f"?consumer={RELAY}", 1),
        ("?reason=retries-exhausted", 2),
        ("?reason=unparseable", 1),
        ("?reason=died", 1),
        ("?key=id-a", 1),
        ("?key=orders%23event", 2),
        ("?older_than=1h", 0),
        ("?younger_than=1h", 4),
        ("?reason=retries-exhausted&error=Unexpected:%20ValueError%20at%20meet:41:%20boom", 2),
        ("?error=another", 0),
    ],
)
def test_filters_select_what_the_commands_select(
    browser: TestClient, shop: Shop, query: str, number: int
) -> None:
    shop.fail("a", "b")
    shop.dead_letter("{")
    shop.cloud.bury(RELAY, "event")
    assert browser.get(f"dead-letters/letters{query}").text.count("<tr>\n") == number
    shown = words(browser.get(f"dead-letters{query}").text)
    assert (f"All {number} letters" in shown) is bool(number)


@pytest.mark.parametrize("query", ["reason=none", "older_than=soon"])
def test_filter_that_cannot_be_read_is_an_error(browser: TestClient, query: str) -> None:
    answer = browser.get(f"dead-letters?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[2] in answer.text


def test_long_list_has_parts(
    browser: TestClient, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PAGE_LETTERS", 2)
    shop.fail("a", "b", "c")
    ids = {letter.message_id for letter in shop.letters()}
    seen = set()
    for number, rel in ((1, 'rel="next"'), (2, 'rel="prev"')):
        text = browser.get(f"dead-letters/letters?consumer=orders&page={number}").text
        assert rel in text
        assert "consumer=orders&amp;page=" in text
        seen |= {one for one in ids if one in text}
    assert seen == ids
    assert browser.get("dead-letters/letters?page=99999").text.count("<tr>\n") == 1


def test_letters_that_another_command_holds_are_told(browser: TestClient, shop: Shop) -> None:
    shop.fail("a")
    with QueueWalk(client("sqs"), [shop.box], limit=2) as walk:
        assert [*walk.pages()]
        text = browser.get("dead-letters").text
    assert "No dead letter could be seen" in text
    assert "1 hidden until" in text


def test_page_that_is_read_again_in_the_background_receives_no_letter(
    browser: TestClient, shop: Shop
) -> None:
    shop.fail("a")
    browser.get("dead-letters")
    received = requests_of("sqs.ReceiveMessage")
    assert "boom" in browser.get("dead-letters", headers=BACKGROUND).text
    assert received == []
    browser.get("dead-letters")
    assert received


def test_page_shows_its_last_reading_while_a_change_holds_the_letters(
    browser: TestClient, shop: Shop, state: ConsoleState
) -> None:
    shop.fail("a")
    browser.get("dead-letters")
    with state.letters.changing():
        assert "boom" in browser.get("dead-letters").text
        answer = browser.get("dead-letters/orders/unknown")
        assert "a change of this console is under way" in answer.text
    assert "boom" in browser.get("dead-letters").text


def test_letter_has_all_that_the_command_shows(browser: TestClient, shop: Shop) -> None:
    shop.process(note("a"))
    shop.dead_letter(note("a", data={"amount": 9}), tenant="x")
    letter = shop.letter()
    text = html.unescape(browser.get(f"dead-letters/orders/{letter.message_id}").text)
    assert "key-conflict" in text
    assert "accepted, committed at" in text
    assert f"<dd>{KEY}\n" in text
    assert '"tenant"' in text
    assert "If sent back: safe, but comes back" in text
    assert "message?key=id-a&source=%2Ftest" in text
    assert '"amount": 9' in text
    assert json.dumps(note("a", data={"amount": 9})) in text  # as it was received


def test_letter_that_is_gone_is_told(browser: TestClient) -> None:
    answer = browser.get("dead-letters/orders/no-such-letter")
    assert answer.status_code == 404
    assert "there is no dead letter" in html.unescape(answer.text)


@settings(quick, max_examples=15)  # each reads many pages
@given(st.lists(letters, min_size=1, max_size=2), records)
@example([time_out_of_range], [])
@example([Forged("<script>alert(1)</script>\u202e\x1b[31m", {})], [])
def test_every_page_shows_any_letter(
    mess: Mess, browser: TestClient, found: Sequence[Forged], stored: Sequence[Any]
) -> None:
    with mess.of(found, stored) as ids:
        shown(browser, "dead-letters")
        shown(browser, "dead-letters/letters")
        for letter, message_id in zip(found, ids, strict=True):
            path = f"dead-letters/{RELAY if letter.relay else 'orders'}/{message_id}"
            shown(browser, path)
            shown(browser, f"{path}/edit")
        assert mess.left() == len(found)


def shown(browser: TestClient, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    assert "unexpected" not in answer.text
    assert "<script>alert" not in answer.text
    assert all(c.isprintable() or c in "\n\t" for c in answer.text)


def test_read_only_console_offers_no_change(
    shop: Shop, state: ConsoleState, browser: TestClient
) -> None:
    shop.fail("a")
    path = f"dead-letters/orders/{shop.letter().message_id}"
    object.__setattr__(state, "read_only", True)
    for page in ("dead-letters", "dead-letters/letters", path, f"{path}/edit"):
        assert 'method="post"' not in browser.get(page).text


def test_histogram_counts_every_letter_once() -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [first + timedelta(hours=hour) for hour in (0, 0, 5, 24)]
    numbers = histogram(hours)
    assert (len(numbers), sum(numbers), numbers[0], numbers[5], numbers[-1]) == (
        BUCKETS,
        4,
        2,
        1,
        1,
    )
    assert histogram([first, first]) == [*[0] * (BUCKETS - 1), 2]
