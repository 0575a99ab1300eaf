"""The forms of dead letters in a real browser, which sends the headers that the console checks."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from demo.browser.chromium import chromium
from once.ops.console.server import console_server
from once.ops.console.state import ConsoleState
from tests.ops.letters import Shop

PHONE: ViewportSize = {"width": 390, "height": 800}


@pytest.fixture
def page(shop: Shop, state: ConsoleState) -> Iterator[Page]:
    """The page of dead letters of a console with two of them, on a phone."""
    shop.fail("a", "b")
    with console_server(state) as server, chromium() as browser:
        thread = threading.Thread(target=server.serve_until_stopped)
        thread.start()
        try:
            opened = browser.new_page(viewport=PHONE)
            opened.goto(f"{server.address.url}dead-letters")
            yield opened
        finally:
            server.should_exit = True
            thread.join()


def test_letters_are_redriven_from_their_group(page: Page, shop: Shop) -> None:
    fits(page)
    page.get_by_role("link", name="ValueError").click()
    fits(page)
    page.get_by_role("checkbox").nth(1).check()
    page.get_by_label("Letters").select_option("chosen")
    page.get_by_role("button", name="Redrive…").click()
    fits(page)
    page.get_by_label("Reason").fill("the price list is there")
    page.get_by_role("button", name="Redrive 1 dead letters").click()
    expect(page.get_by_role("status").first).to_contain_text("done", timeout=20_000)
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_role("cell", name="1", exact=True)).to_be_visible()
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("row", name="the price list is there")).to_contain_text("sent 1")
    fits(page)
    assert len(shop.letters()) == 1


def fits(page: Page) -> None:
    page.wait_for_load_state()  # with the style sheet
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
