"""A real browser on the console: the locked Chromium of npm, driven by Playwright; and pictures.

The npm package `@sparticuz/chromium` is unpacked once, and starts without a display.
`make redraw` and `PICTURES=1 make demo` take the pictures of the console in docs/img.
"""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

import brotli
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from emulator.installed import ROOT

FOLDER = ROOT / "docs" / "img"
WIDTH, MOST_HEIGHT = 1280, 900
_END_SECONDS = 20

_PACKAGE = ROOT / "node_modules" / "@sparticuz" / "chromium"
_ARCHIVES = ("al2023", "fonts", "swiftshader")
"""Libraries that a machine may lack, a font, and drawing without a graphics card."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser, and end it with the context.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    folder = unpacked_chromium()
    environment: dict[str, str | float | bool] = {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder / "al2023" / "lib"),
        "FONTCONFIG_PATH": str(folder / "fonts" / "fonts"),
        "HOME": str(folder),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=folder / "chromium",
            env=environment,
            # As root it refuses to run with its sandbox; the pages are the console's own.
            args=["--no-sandbox", "--headless=shell", "--no-zygote", "--disable-gpu"],
        )
        yield browser
        browser.close()


def unpacked_chromium(cache: Path = ROOT / ".cache" / "chromium") -> Path:
    """Return the folder of the unpacked browser; unpack it first if this has not been done.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    description = _PACKAGE / "package.json"
    if not description.exists():
        raise FileNotFoundError(f"{_PACKAGE} is missing: run `make setup`, which installs it")
    folder = cache / str(json.loads(description.read_text())["version"])
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = Path(mkdtemp(dir=cache))
        _unpack(part)
        try:
            part.rename(folder)  # whole, or not there
        except OSError:  # another process was faster
            return folder
    return folder


def _unpack(folder: Path) -> None:
    program = folder / "chromium"
    program.write_bytes(brotli.decompress((_PACKAGE / "bin" / "chromium.br").read_bytes()))
    program.chmod(0o755)
    for name in _ARCHIVES:
        content = brotli.decompress((_PACKAGE / "bin" / f"{name}.tar.br").read_bytes())
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            # Python 3.11.4 and newer have the filter, 3.14 uses it by itself.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder / name)  # noqa: S202 - a locked package with its hash


@contextmanager
def console_process(environment: Mapping[str, str], folder: Path = ROOT) -> Iterator[str]:
    """Run `once console`, and end it with the context as Ctrl-C does.

    Args:
        environment: the variables of the AWS that it shows.
        folder: where it is started.

    Yields:
        Its URL.

    Raises:
        RuntimeError: it did not start; the message has its output.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "once.ops", "console", "--json"],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout  # noqa: S101 - it is a pipe
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"once console has ended: {process.communicate()[1]}")
            yield str(json.loads(line)["url"])
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def take_pictures(
    browser: Browser, aws: Mapping[str, str], order: str, folder: Path = FOLDER
) -> list[Path]:
    """Take pictures of the pages, and of the first ones in dark colours as well.

    Returns the files `console-*.png`; the AWS has a deployment that has processed the order, and
    dead letters. `console.sha256` tells of which pages they are.
    """
    files: list[Path] = []
    with console_process(aws) as url:
        for suffix in ("", "-dark"):
            page = browser.new_page(
                viewport={"width": WIDTH, "height": MOST_HEIGHT},
                color_scheme="dark" if suffix else "light",
            )
            for name in _opened_pages(page, url, order):
                if name in _DARK or not suffix:
                    files.append(folder / f"console-{name}{suffix}.png")
                    _take_picture(page, files[-1])
            page.close()
    (folder / SHOWN).write_text(f"{digest_of_pages()}\n")
    return files


SHOWN = "console.sha256"


def digest_of_pages() -> str:
    """Return the SHA-256 of the console's templates and styles, which the pictures show."""
    console = ROOT / "once" / "ops" / "console"
    files = [*sorted((console / "templates").iterdir()), console / "static" / "console.css"]
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


_DARK = ("overview", "dead-letters")


def _opened_pages(page: Page, url: str, order: str) -> Iterator[str]:
    """Open one page of the console after the other, and yield their names."""
    page.goto(f"{url}dead-letters")  # the overview tells what was read of them
    read_completely(page)
    for name in ("overview", "dead-letters"):
        page.goto(url + ("" if name == "overview" else name))
        yield name
    page.locator("tbody a").first.click()
    yield "group"
    group = page.url
    page.get_by_role("button", name="Redrive…").click()
    read_completely(page)
    if (again := page.get_by_role("button", name="Plan again")).count():
        again.click()
    yield "change"
    page.goto(group)
    page.locator("tbody a").first.click()
    yield "dead-letter"
    page.goto(f"{url}message?key={quote(order)}")
    yield "message"
    for name in ("effects", "outbox", "webhooks", "operator-log"):
        page.goto(url + name)
        yield name


def _take_picture(page: Page, file: Path) -> None:
    read_completely(page)
    height = min(MOST_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
    clip: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": height}
    page.screenshot(path=file, full_page=True, clip=clip)


def read_completely(page: Page) -> None:
    """Wait until the page shows a whole reading, and its script has begun."""
    page.locator("#connection[class]").wait_for()
    page.locator("main [data-reading]").first.wait_for(state="detached")
