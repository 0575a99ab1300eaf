"""The console in a real browser, on the deployed service."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from demo.browser import chromium, console_process, read_completely
from demo.quiescence import wait_until
from emulator.installed import ROOT
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, Deployment
from tests.e2e.test_orders import assert_counted_once, place_order, placed, shelf, unique

HOSTILE = "<img src=x onerror=document.title='owned'>\u202e"
PHONE = 390
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_MS = 120_000
"""A bound for a busy machine; five seconds, as Playwright has it, are not."""
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def url(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a console that shows an order, and dead letters with a hostile body."""
    place_order(service, copies=2)
    service.send("inventory", cloud_event("order.placed", {"order_id": HOSTILE}), HOSTILE)
    folder = tmp_path_factory.mktemp("console")
    with console_process(service.aws.environment(), folder) as found:
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
    row = page.get_by_role("row", name="balances").first
    expect(page.locator("#connection")).to_have_text("live")
    before = row.inner_text()
    service.sqs.send_message(
        QueueUrl=service.parts.consumer("balances").dead_letter_url, MessageBody="x"
    )
    expect(row).to_have_class("stuck")
    assert row.inner_text() != before
    service.dead_letters("balances", 1)


def opened(page: Page, url: str) -> Iterator[str]:
    """Open every kind of page, one after the other; yield their addresses."""
    root = url[: url.index("/", 8)]
    for path in paths(page):
        page.goto(f"{root}{path}")
        read_completely(page)
        yield path
    page.goto(f"{url}dead-letters?consumer=inventory")
    page.locator("tbody a").first.click()
    read_completely(page)
    yield "group"
    page.get_by_role("button", name="Redrive…").click()
    yield "change"
    page.go_back()
    page.locator("tbody a").first.click()
    read_completely(page)
    yield "letter"
    page.get_by_role("link", name="Its message").click()
    read_completely(page)
    yield "message"
    page.go_back()
    page.get_by_role("link", name="Edit…").click()
    read_completely(page)
    yield "edit"


def test_every_page_is_accessible_in_light_and_dark_small_and_fits_a_phone(
    browser: Browser, url: str
) -> None:
    context = browser.new_context(bypass_csp=True)  # axe is injected
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    desktop = page.viewport_size
    for name in opened(page, url):
        page.evaluate(AXE.read_text())
        assert violations(page) == [], name
        page.emulate_media(color_scheme="dark")
        assert violations(page, "{runOnly: ['color-contrast']}") == [], f"{name} in dark"
        page.emulate_media(color_scheme="light")
        assert len(page.content()) < 200_000, name
        page.set_viewport_size({"width": PHONE, "height": 800})
        # A locator waits for the document of a page that is reading itself again.
        assert page.locator("html").evaluate("page => page.scrollWidth") <= PHONE, name
        page.set_viewport_size(desktop or {"width": 1280, "height": 720})
    context.close()


def violations(page: Page, options: str = "") -> list[str]:
    """Return the rules of accessibility that a page violates, each with its first element."""
    found = page.evaluate(f"axe.run({options})")
    return [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in found["violations"]]


def test_a_dead_letter_is_deleted_put_back_edited_and_processed(
    page: Page, url: str, service: Deployment
) -> None:
    order, sku = unique("order"), shelf(service)
    poison = placed(order, sku)
    poison["data"]["lines"][0]["quantity"] = "two"
    service.send("inventory", poison)
    service.send("orders", placed(order, sku))
    service.wait_until_empty("orders", "inventory")

    def confirm(button: str) -> None:
        page.get_by_label("Reason").fill("a price list was missing")
        page.get_by_role("button", name=button).click()
        expect(page.locator(".phase")).to_contain_text("Done")

    def opened_list() -> bool:
        """Open the list; its reading may be some seconds old."""
        page.goto(f"{url}dead-letters/letters?consumer=inventory&key=placed-{order}")
        read_completely(page)
        return page.locator("tbody a").count() == 1

    wait_until("the dead letter is listed", opened_list, timeout=REST_SECONDS)
    page.get_by_role("checkbox", name="check all").check()
    expect(page.locator("select[name=which]")).to_have_value("chosen")
    page.get_by_role("button", name="Archive and delete…").click()
    confirm("Archive and delete 1 dead letter")
    page.get_by_role("button", name="Plan the import").click()
    confirm("Import 1 dead letter")
    wait_until("the dead letter is back", opened_list, timeout=REST_SECONDS)
    page.locator("tbody a").first.click()
    page.get_by_role("link", name="Edit…").click()
    body = page.get_by_label("Body")
    body.fill(body.input_value().replace('"two"', "2"))
    page.get_by_role("button", name="Show what would be sent").click()
    confirm("Redrive")
    service.wait_at_rest()
    assert_counted_once(service, order, sku)
    page.get_by_role("link", name="Operator log").first.click()
    expect(page.get_by_role("row", name="a price list was missing")).to_have_count(3)


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


def test_a_page_of_another_site_cannot_make_a_change(browser: Browser, url: str) -> None:
    other = browser.new_page()
    other.set_content(f'<form method="post" action="{url}jobs/x/start"><button>Win</button></form>')
    with other.expect_navigation() as navigated:
        other.get_by_role("button").click()
    assert navigated.value is not None
    assert navigated.value.status == 403
    other.close()
