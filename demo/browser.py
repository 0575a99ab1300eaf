"""A real browser on the console: the locked Chromium of npm, driven by Playwright; and pictures.

The npm package `@sparticuz/chromium` is unpacked once, and starts without a display.
`PICTURES=1 make demo` takes the pictures of the console in docs/img.
"""

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
from playwright.sync_api import Browser, sync_playwright

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
def console_process(environment: Mapping[str, str], *options: str) -> Iterator[str]:
    """Run `once console`, and end it with the context as Ctrl-C does.

    Args:
        environment: the variables of the AWS that it shows.
        options: options of the command.

    Yields:
        Its URL.

    Raises:
        RuntimeError: it did not start; the message has its output.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "once.ops", "console", "--json", *options],
        cwd=ROOT,
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
    """Take pictures of the overview, the dead letters and the story of one order.

    Returns the files `console-*.png`; the AWS has a deployment that has processed the order.
    """
    pages = {
        "overview": "",
        "dead-letters": "dead-letters",
        "message": f"message?key={quote(order)}",
    }
    with console_process(aws, "--read-only") as url:
        page = browser.new_page(viewport={"width": WIDTH, "height": MOST_HEIGHT})
        for name, path in pages.items():
            page.goto(url + path)
            height = min(MOST_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
            page.screenshot(
                path=folder / f"console-{name}.png",
                full_page=True,
                clip={"x": 0, "y": 0, "width": WIDTH, "height": height},
            )
    return [folder / f"console-{name}.png" for name in pages]
