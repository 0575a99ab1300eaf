"""Dead letters that another command hides: every command says so, with an exit code of its own."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from once.ops.aws.clients import client
from once.ops.dead_letters.search import HOLD_SECONDS, QueueWalk
from tests.ops.letters import Shop
from tests.ops.output import words
from tests.ops.support import run

HIDDEN = 3
"""The exit code."""
SAID = re.compile(r"(\d+) hidden until (\d\d:\d\d:\d\d) UTC, by another command")


@pytest.fixture
def others(shop: Shop) -> Iterator[QueueWalk]:
    """A walk of another command that hides two of three letters."""
    shop.fail("a", "b", "c")
    with QueueWalk(client("sqs"), [shop.box], limit=2) as walk:
        assert len([letter for page in walk.pages() for letter in page]) == 2
        yield walk


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "list --reason died",
        "list --json",
        "redrive --rate 1000 --yes",
        "purge --yes --export x",
    ],
)
def test_command_says_how_many_letters_are_hidden_and_until_when(
    others: QueueWalk, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    began = datetime.now(UTC)
    result = run("dlq", *command.split())
    assert result.exit_code == HIDDEN, result.output
    found = SAID.search(words(result.stderr))
    assert found, result.stderr
    assert found[1] == "2"
    until = datetime.strptime(found[2], "%H:%M:%S").replace(tzinfo=UTC)
    assert 0 <= (until - began.replace(year=1900, month=1, day=1)).seconds <= HOLD_SECONDS + 30
    assert "run this command again then" in words(result.stderr)


def test_list_that_sees_no_letter_does_not_say_that_there_is_none(shop: Shop) -> None:
    shop.fail("a")
    with QueueWalk(client("sqs"), [shop.box], limit=2) as walk:
        assert len([*walk.pages()]) == 1
        result = run("dlq", "list")
    assert result.exit_code == HIDDEN
    assert "no dead letters" not in result.stdout
    assert "no dead letter could be seen" in result.stdout
    assert "1 hidden until" in result.stdout


def test_json_has_the_number_of_hidden_letters(others: QueueWalk, shop: Shop) -> None:
    hidden = json.loads(run("dlq", "list", "--json").stdout)["hidden_by_other_commands"]
    assert hidden["number"] == 2
    assert datetime.fromisoformat(hidden["until"]) > datetime.now(UTC)
    shop.show_hidden()
    assert json.loads(run("dlq", "list", "--json").stdout)["hidden_by_other_commands"] is None


@pytest.mark.parametrize("command", ["show", "redrive"])
def test_id_that_may_be_hidden_is_not_denied(others: QueueWalk, command: str) -> None:
    result = run("dlq", command, "no-such-id")
    assert result.exit_code == HIDDEN
    assert "there is no dead letter 'no-such-id' among those that could be seen, and 2" in words(
        result.stderr
    )


def test_named_letter_that_is_found_is_shown_without_a_word_on_others(
    others: QueueWalk, shop: Shop
) -> None:
    letters = json.loads(run("dlq", "list", "--json").stdout)["letters"]
    [seen] = [letter["message_id"] for letter in letters]
    assert run("dlq", "show", seen).exit_code == 0


@pytest.mark.parametrize("first_limit", [1, 2])
def test_two_operators_at_once_are_both_told(shop: Shop, first_limit: int) -> None:
    shop.fail("a", "b", "c")
    with QueueWalk(client("sqs"), [shop.box], limit=first_limit) as first:
        assert [*first.pages()]
        result = run("dlq", "list", "--limit", 1)
    assert result.exit_code == HIDDEN
    assert f"{first_limit} hidden until" in words(result.stderr)
