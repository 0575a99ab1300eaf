"""The operator's editor: how it is started, what it opens, and what becomes of its text."""

import json
import os
import shlex
import sys
from typing import Any

import pytest

from once.ops.dlq._redrive import EDIT_HOLD_SECONDS
from tests.ops.editing import Editor, edit, refused
from tests.ops.letters import Shop, note
from tests.ops.support import answer_with


@pytest.mark.parametrize(
    ("body", "opened"),
    [
        (json.dumps(note("é", data={"amount": "x"})), None),
        ('{"id": 1, "id": 2}', '{"id": 1, "id": 2}'),
    ],
    ids=["sound JSON is indented", "what is no JSON is left to the letter"],
)
def test_the_editor_opens_with_the_body(
    shop: Shop, editor: Editor, body: str, opened: str | None
) -> None:
    shop.give_up(body)
    editor.writes(None)
    assert "the body was not changed" in refused(shop)
    found = editor.found.read_text()
    assert found == (opened or json.dumps(json.loads(body), indent=2, ensure_ascii=False))


def test_a_refused_text_can_be_edited_again(shop: Shop, editor: Editor) -> None:
    shop.give_up(note("a", data={"amount": "three"}))
    editor.writes("{ not yet", note("a", data={"amount": 3}))
    result = edit(shop, answers="y\n")
    assert result.exit_code == 0, result.output
    assert editor.found.read_text() == "{ not yet"
    shop.work_off()
    assert shop.counted() == {"a": 3}


def test_a_dry_run_edits_and_sends_nothing(shop: Shop, editor: Editor) -> None:
    shop.give_up(note("a", data={"amount": "three"}))
    editor.writes(note("a", data={"amount": 3}))
    result = edit(shop, "--dry-run")
    assert result.exit_code == 0
    assert "would be sent: 1" in result.stdout
    assert shop.waiting() == []
    assert shop.hidden() == 0


def test_visual_is_taken_where_editor_is_not_set(
    shop: Shop, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", os.environ["EDITOR"])
    monkeypatch.delenv("EDITOR")
    shop.give_up(note("a"), error=ValueError())
    editor.writes(note("a", data={"amount": 3}))
    assert edit(shop).exit_code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (None, "there is no editor: set EDITOR, such as EDITOR=vi"),
        ("/no/such/editor", "EDITOR=/no/such/editor cannot be started"),
        (f"{shlex.quote(sys.executable)} -c 'import sys; sys.exit(3)'", "ended with 3"),
    ],
)
def test_an_editor_that_does_not_work_is_told_with_the_remedy(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, command: str | None, said: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    if command:
        monkeypatch.setenv("EDITOR", command)
    shop.give_up(note("a"), error=ValueError())
    assert said in refused(shop)


def test_the_letter_is_held_for_as_long_as_an_edit_takes(shop: Shop, editor: Editor) -> None:
    asked: list[Any] = []
    answer_with("sqs.ChangeMessageVisibility", lambda params: asked.append(params["body"]))
    shop.give_up(note("a"), error=ValueError())
    editor.writes(note("a", data={"amount": 3}))
    edit(shop)
    assert len(asked) == 1
    assert f'"VisibilityTimeout": {EDIT_HOLD_SECONDS}' in str(asked[0])
