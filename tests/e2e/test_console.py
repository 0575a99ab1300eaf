"""The console in a real browser, on the deployed service."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from demo.browser import chromium, console_process, take_pictures
from once.testing import cloud_event
from tests.e2e.deployment import Deployment
from tests.e2e.test_orders import place_order

HOSTILE = "<img src=x onerror=document.title='owned'>\u202e"
PHONE = 390
PATIENCE_MS = 120_000
"""A bound for a busy machine; five seconds, as Playwright has it, are not."""
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def url(service: Deployment) -> Iterator[str]:
    """The URL of a console that shows an order, and dead letters with a hostile body."""
    place_order(service, copies=2)
    service.send("inventory", cloud_event("order.placed", {"order_id": HOSTILE}), HOSTILE)
    with console_process(service.aws.environment()) as found:
        yield found
    service.take("inventory")


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """A page that fails the test if it has an error, or breaks its content security policy."""
    faults: list[str] = []
    opened = browser.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    opened.goto(url)
    yield opened
    opened.close()
    assert faults == []


def paths(page: Page) -> list[str]:
    """Return the addresses of all pages in the navigation."""
    links = page.get_by_role("navigation").get_by_role("link")
    return [str(link.get_attribute("href")) for link in links.all()]


def test_the_overview_is_read_again_when_something_changes(page: Page, service: Deployment) -> None:
    row = page.get_by_role("row", name="rogue").first
    expect(page.get_by_role("status").last).to_have_text("live")
    before = row.inner_text()
    service.sqs.send_message(
        QueueUrl=service.parts.consumer("rogue").dead_letter_url, MessageBody="x"
    )
    expect(row).to_have_class("stuck")
    assert row.inner_text() != before
    service.take("rogue")


def test_every_page_fits_a_phone(page: Page, url: str) -> None:
    page.set_viewport_size({"width": PHONE, "height": 800})
    for path in paths(page):
        page.goto(f"{url[: url.index('/', 8)]}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, path


def test_every_page_is_reached_by_keyboard(page: Page) -> None:
    for path in paths(page):
        page.get_by_role("navigation").get_by_role("link").first.focus()
        for _ in range(20):
            if urlsplit(str(page.evaluate("document.activeElement.href"))).path == path:
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_pictures_are_taken(browser: Browser, service: Deployment, tmp_path: Path) -> None:
    order, _ = place_order(service)
    files = take_pictures(browser, service.aws.environment(), order, tmp_path)
    assert [file.name for file in files] == [
        *("console-overview.png", "console-dead-letters.png", "console-message.png")
    ]
    assert all(file.stat().st_size > 10_000 for file in files)


def test_a_page_of_another_site_cannot_make_a_change(browser: Browser, url: str) -> None:
    other = browser.new_page()
    other.set_content(f'<form method="post" action="{url}jobs/x/start"><button>Win</button></form>')
    with other.expect_navigation() as navigated:
        other.get_by_role("button").click()
    assert navigated.value is not None
    assert navigated.value.status == 403
    other.close()
