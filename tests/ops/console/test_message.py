"""The page of one message shows what `once trace` shows, as a picture and as a list."""

from typing import Any
from xml.etree import ElementTree as ET

from starlette.testclient import TestClient

from once.names import Outcome, Reason, Record
from tests.ops.tracing import ORDER_ID, Saga, body, placed

HOSTILE = "</title><script>alert(1)</script>\u202e\x1b]0;owned\x07'\"&"


def picture_of(text: str) -> ET.Element:
    start = text.index('<svg class="sequence"')
    return ET.fromstring(text[start : text.index("</svg>", start) + len("</svg>")])


def labels(text: str) -> list[tuple[str, str]]:
    """The class and the title of each step of the picture."""
    steps = [g for g in picture_of(text).iter("g") if g.get("class", "").startswith("step")]
    return [(g.get("class", "").removeprefix("step "), g[0].text or "") for g in steps]


def test_the_story_of_an_order_is_a_picture_and_a_list(saga: Saga, browser: TestClient) -> None:
    event = saga.order("4711")
    saga.log("orders", "duplicate", key_hash=saga.hash("orders", event))
    text = browser.get("message", params={"key": event.id, "source": event.source}).text
    shown = labels(text)
    assert ("delivered", "producer → orders: order.placed") in shown
    assert ("committed", "inventory → dedup table: committed") in shown
    assert ("published", "dedup table → relay and topic: stock.reserved") in shown
    assert ("delivered", "relay and topic → payments: stock.reserved") in shown
    assert ("duplicate", "producer → orders: order.placed: duplicate") in shown
    assert shown.index(("published", "dedup table → relay and topic: stock.reserved")) < (
        shown.index(("delivered", "relay and topic → payments: stock.reserved"))
    )
    lanes = [text.text for text in picture_of(text).iter("text") if text.get("class") == "name"]
    assert lanes[:3] == ["producer", "relay and topic", "orders"]
    assert lanes[-1] == "dedup table"
    assert text.count("<strong>committed</strong>") == 6
    assert "&#34;amount&#34;: 700" in text  # an event that was published, indented


def test_refusals_retries_and_dead_letters_are_in_the_story(
    saga: Saga, browser: TestClient
) -> None:
    event = placed("4712")
    refused: dict[str, Any] = {
        Record.OUTCOME: {"S": Outcome.REFUSED},
        Record.REFUSAL: {"S": "OutOfStock"},
    }
    saga.commit("inventory", event, **refused)
    saga.bury("orders", event, Reason.PERMANENT, error="no such customer")
    saga.log(
        "inventory", "will be retried", key_hash=saga.hash("inventory", event), receive_count=2
    )
    text = browser.get("message", params={"key": event.id, "source": event.source}).text
    assert {
        ("refused", "inventory → dedup table: refused: OutOfStock"),
        ("quarantined", "orders → dead letters: permanent"),
        ("retried", "producer → inventory: order.placed: will be retried (receive 2)"),
    } <= {*labels(text)}
    assert "no such customer" in text
    assert "/dead-letters/orders/" in text


def test_hostile_content_is_text(saga: Saga, browser: TestClient) -> None:
    event = placed(HOSTILE, data={"order_id": HOSTILE})
    saga.commit("payments", event, "payment.captured", key=ORDER_ID)
    saga.bury("orders", body(event), error=HOSTILE.replace("\x1b", "").replace("\x07", ""))
    saga.bury("orders", "<script>not JSON " + "x" * 30_000, key="orders#" + event.id)
    for key in (HOSTILE, event.id):
        answer = browser.get("message", params={"key": key, "source": "/shop"})
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text
        assert "\x1b" not in answer.text
        assert len(answer.text) < 120_000
    picture_of(answer.text)
