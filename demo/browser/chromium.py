"""Chromium from the npm package `@sparticuz/chromium`: unpacked once, started without a display."""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import brotli
from playwright.sync_api import Browser, sync_playwright

from emulator.embedded_aws import ROOT

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
