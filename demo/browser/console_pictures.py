"""Pictures of the console, of what the demo has left: `PICTURES=1 make demo`."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page

from demo.browser.console_process import console_process
from emulator.embedded_aws import ROOT

FOLDER = ROOT / "docs" / "img"
WIDTH, MOST_HEIGHT = 1280, 900


def take_pictures(
    browser: Browser, aws: Mapping[str, str], order: str, folder: Path = FOLDER
) -> list[Path]:
    """Take pictures of the overview, the dead letters and the story of one order.

    Args:
        browser: shows the pages.
        aws: the variables of an AWS with a deployment.
        order: the id of an order that it has processed.
        folder: for the pictures `console-*.png`.

    Returns:
        The files.
    """
    pages = {
        "overview": "",
        "dead-letters": "dead-letters",
        "message": f"message?key={quote(order)}",
    }
    with console_process(aws, "--read-only") as url:
        page = browser.new_page(viewport={"width": WIDTH, "height": MOST_HEIGHT})
        return [_picture(page, url + path, folder, name) for name, path in pages.items()]


def _picture(page: Page, url: str, folder: Path, name: str) -> Path:
    page.goto(url)
    file = folder / f"console-{name}.png"
    height = min(MOST_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
    page.screenshot(
        path=file, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height}
    )
    return file
