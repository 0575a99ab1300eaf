"""The page of commands: its examples run, and its tables say what the door and the scopes do."""

import re

from once.commands import scope
from once.commands.answer import ANSWER_BYTES, REPEATED
from once.commands.http_door import PROBLEMS
from once.commands.runner import MAX_KEY_BYTES
from once.testing import FakeAws
from tests.architecture.imports import ROOT
from tests.docs.test_examples import blocks, run

PAGE = ROOT / "docs" / "commands.md"
TEXT = PAGE.read_text()


def test_the_first_command_and_its_test_run() -> None:
    run(PAGE, *blocks(PAGE)[:2])["test_an_order_is_placed_once"]()


def test_any_code_runs_a_command() -> None:
    names = run(PAGE, *blocks(PAGE))
    with FakeAws(names["api"], {"orders": "order_id"}, publishes=("order.placed",)):
        event = {"order": {"order_id": "o-1", "amount": 5}, "execution": "e-1"}
        assert names["handler"](event, None) == names["handler"](event, None) == {"order_id": "o-1"}


def test_the_page_lists_every_problem() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \|", TEXT, re.MULTILINE)
    found = {kind: int(status) for kind, status in rows}
    assert found == {kind: status for kind, (status, _) in PROBLEMS.items()}


def test_the_page_lists_every_scope() -> None:
    found = re.findall(r"^\| `Scope\.(\w+)\(", TEXT, re.MULTILINE)
    assert sorted(found) == sorted(scope.RULES)


def test_the_page_names_the_limits_and_the_header() -> None:
    assert f"at most {ANSWER_BYTES // 1024} KB" in TEXT
    assert f"at most {MAX_KEY_BYTES} characters" in TEXT
    assert f"`{REPEATED}: true`" in TEXT
