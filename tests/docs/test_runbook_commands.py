"""Every command that the documents give an operator exists, and takes the options they give it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from once.ops.__main__ import app

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"`(?:once )?((?:status|dlq|trace|outbox)(?: [^`]*)?)`")


def commands() -> Iterator[str]:
    for page in sorted(ROOT.glob("docs/**/*.md")):
        yield from COMMAND.findall(page.read_text())


def strange(text: str) -> list[str]:
    """The words of a command that the command line does not know."""
    found: Any = get_command(app)
    words = text.split()
    while words and hasattr(found, "commands") and words[0] in found.commands:
        found = found.commands[words.pop(0)]
    options = {name for parameter in found.params for name in parameter.opts}
    unknown = [word for word in words if word.startswith("--") and word not in options]
    missing_command = [words[0]] if words and hasattr(found, "commands") else []
    return unknown + missing_command


@pytest.mark.parametrize("text", sorted(set(commands())))
def test_the_command_exists_with_its_options(text: str) -> None:
    assert strange(text) == []


@pytest.mark.parametrize("text", ["dlq lost", "dlq list --colour red", "trace KEY --loud"])
def test_one_that_does_not_exist_is_noticed(text: str) -> None:
    assert strange(text) != []


def test_the_runbook_gives_commands() -> None:
    assert len(set(commands())) > 10
