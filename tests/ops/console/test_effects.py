"""Pending effects are listed, and settled as `once effects settle` does."""

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from once.effects.declaration import Policy
from once.ops.aws.deployment import Deployment
from once.ops.console.state import ConsoleState
from tests.ops.cloud import Cloud
from tests.ops.console.conftest import confirmed, page_of, planned
from tests.ops.shop import KEY, Shop, note

SETTLE = "effects/settle"


@pytest.fixture
def unknown(cloud: Cloud) -> Iterator[Shop]:
    """A consumer whose effect may have happened."""
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        shop.outside.answers = [TimeoutError()] * 3
        shop.dead_letter(note("a"))
        shop.outside.answers = []
        yield shop


@pytest.fixture
def state(unknown: Shop) -> ConsoleState:
    return ConsoleState(Deployment.find())


def test_an_unknown_effect_is_listed_with_its_key_and_lease(browser: TestClient) -> None:
    text = browser.get("effects").text
    assert text.count('<tr class="stuck">') == 1
    assert "charge" in text
    assert f"message?key={KEY.replace('#', '%23')}" in text
    story = browser.get("message", params={"key": KEY}).text
    assert "pending: unknown" in story
    assert "effects/one?key=" in story


def test_an_effect_is_settled_after_its_dry_run(
    browser: TestClient, state: ConsoleState, unknown: Shop
) -> None:
    evidence = "<b>seen</b> at the provider"
    given = {"key": KEY, "outcome": "done", "done": '"ref-1"', "why": evidence}
    job = planned(browser, state, SETTLE, **given)
    shown = browser.get(page_of(state, job)).text
    assert "&lt;b&gt;seen&lt;/b&gt;" in shown
    [before] = unknown.aws.items("dedup")
    assert before["standing"] == "unknown"
    assert "<dd>1</dd>" in confirmed(browser, state, job, "ticket 7")
    [after] = unknown.aws.items("dedup")
    assert after["standing"] == "settled"
    assert json.loads(after["settlement"])["why"] == f"{evidence}; ticket 7"
    intent, outcome = unknown.cloud.logged()
    assert (intent["command"], outcome["counts"]) == ("effects settle", {"settled": 1})
