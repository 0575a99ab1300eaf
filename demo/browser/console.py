"""The command `once console` as a child process, and pictures of it: `PICTURES=1 make demo`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser

from emulator.embedded_aws import ROOT

FOLDER = ROOT / "docs" / "img"
WIDTH, MOST_HEIGHT = 1280, 900
_END_SECONDS = 20


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
