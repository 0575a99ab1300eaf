"""`dlq redrive --edit`: the body may change, and the event stays the same event."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from once.effects.declaration import Policy
from once.names import DeadLetterAttribute
from once.ops.dead_letters.queue_walk import QueueWalk
from tests.ops.cloud import Cloud
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import stdout_of, words


class Editor:
    """The program in EDITOR: it writes the next of some texts, and keeps the text it opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.found, self._texts = folder / "found", folder / "texts"
        self._texts.mkdir()
        script = f'cp "$0" {self.found}; mv "$(ls {self._texts}/* | head -n 1)" "$0" 2>&-; true'
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", shlex.join(["sh", "-c", script]))

    def writes(self, *bodies: Any) -> None:
        """Set texts, or values to write as JSON; without one the file is left unchanged."""
        for number, body in enumerate(bodies):
            text = body if isinstance(body, str) else json.dumps(body)
            (self._texts / str(number)).write_text(text)


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Editor:
    return Editor(monkeypatch, tmp_path)


@pytest.fixture
def invalid(shop: Shop) -> Shop:
    """A shop with a dead letter whose data is invalid."""
    shop.dead_letter(note("a", data={"amount": "three"}))
    return shop


VALID = note("a", data={"amount": 3})


def edit(shop: Shop, *options: object, answer: str = "n\n") -> Result:
    """Edit the only dead letter."""
    return shop.redrive("--edit", *options, answer=answer)


def refused(shop: Shop) -> str:
    """Edit without success; return the error text. The message must be unchanged."""
    before = shop.only_dead_letter().original
    result = edit(shop)
    assert result.exit_code == 1
    assert shop.waiting() == []
    assert shop.hidden() == 0
    assert shop.only_dead_letter().original == before
    return words(result.stderr)


def test_edited_message_is_redriven_with_a_note_of_the_edit(invalid: Shop, editor: Editor) -> None:
    editor.writes(note("a", data={"amount": "four"}))
    result = edit(invalid)
    assert result.exit_code == 0, result.output
    assert invalid.dead_letters() == []
    [message] = invalid.waiting()
    assert message["MessageAttributes"][DeadLetterAttribute.LINEAGE]["StringValue"].endswith(
        " edited"
    )
    assert DeadLetterAttribute.KEY not in message["MessageAttributes"]
    invalid.move_received([message])  # it fails again
    assert [stay.edited for stay in invalid.only_dead_letter().lineage] == [True, False]
    assert ", edited" in stdout_of("dlq", "show", invalid.only_dead_letter().message_id)


PUT_BACK = "from orders#{} to orders#{}: put it back"
CHANGED_KEYS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "id": (
        note("a"),
        note("a", event_id="b"),
        PUT_BACK.format("event#/test#id-a", "event#/test#b"),
    ),
    "field": (
        note("a", "named"),
        note("b", "named", event_id="id-a"),
        PUT_BACK.format("field#named#name#str:a", "field#named#name#str:b")
        + " as it was, or have the producer send a new event with an id of its own",
    ),
    "content": (note("a", "nameless"), note("a", "nameless", data={"amount": 2}), ""),
}


@pytest.mark.parametrize(("before", "after", "said"), CHANGED_KEYS.values(), ids=CHANGED_KEYS)
def test_edit_that_changes_the_key_is_refused(
    shop: Shop, editor: Editor, before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    shop.dead_letter(before, error=ValueError())
    editor.writes(after)
    assert f"the event's key would change, {said}" in refused(shop)


def test_edit_is_refused_if_the_key_is_unknown(shop: Shop, editor: Editor) -> None:
    shop.set_rules(replace(shop.box.consumer, keys={}))
    shop.move(note("a", "named"))
    for after, said in (
        (note("a", "named", event_id="b"), "id 'id-a' to source '/test' and id 'b'"),
        (note("a", "named", data={"more": True}), "nothing tells whether its key would change"),
    ):
        editor.writes(after)
        assert said in refused(shop)


INVALID_EDITS: list[tuple[Any, str]] = [
    (note("a", "named"), "its type would change"),
    ("{", "no consumer could read it, unparseable"),
    ("", "no consumer could read it, unparseable"),
    (note("a") | {"id": None}, "no consumer could read it, no-key"),
    (note("a") | {"specversion": "2"}, "no consumer could read it, invalid-event"),
]


def test_invalid_edit_is_refused(shop: Shop, editor: Editor) -> None:
    shop.fail("a")
    for body, said in INVALID_EDITS:
        editor.writes(body)
        assert said in refused(shop)


def test_edit_of_a_committed_event_is_refused(shop: Shop, editor: Editor) -> None:
    shop.fail("a")
    shop.process(note("a"))
    for more in ({"amount": 9}, {"note": "new"}):
        editor.writes(note("a", data=more))
        said = refused(shop)
        assert f"other content was committed under its key {KEY}" in said
        assert "would fail again as key-conflict" in said
        assert "have the producer send a new event" in said


def test_conflict_edited_to_the_committed_content_is_a_duplicate(
    shop: Shop, editor: Editor
) -> None:
    shop.process(note("a"))
    shop.dead_letter(note("a", data={"amount": 9}))
    editor.writes(note("a"))
    assert edit(shop).exit_code == 0
    shop.work_off()
    assert shop.counted() == {"a": 1}
    assert shop.dead_letters() == []


def test_edit_does_not_make_a_message_safe(cloud: Cloud, editor: Editor) -> None:
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        shop.outside.answers = [TimeoutError()]
        shop.dead_letter(note("a"))
        editor.writes(note("a") | {"time": "2026-07-30T14:00:00Z"})
        assert "Needs a person" in refused(shop)


INDENTED = json.dumps(note("é", data={"amount": "x"}), indent=2, ensure_ascii=False)


@pytest.mark.parametrize(
    ("body", "opened"),
    [
        pytest.param(json.dumps(json.loads(INDENTED)), INDENTED, id="valid JSON is indented"),
        pytest.param('{"id": 1, "id": 2}', '{"id": 1, "id": 2}', id="invalid JSON is unchanged"),
    ],
)
def test_editor_opens_the_body(shop: Shop, editor: Editor, body: str, opened: str) -> None:
    shop.dead_letter(body)
    assert "the body was not changed" in refused(shop)
    assert editor.found.read_text() == opened


def test_refused_text_can_be_edited_again(invalid: Shop, editor: Editor) -> None:
    editor.writes("{ not yet", VALID)
    result = edit(invalid, answer="y\n")
    assert result.exit_code == 0, result.output
    assert editor.found.read_text() == "{ not yet"
    invalid.work_off()
    assert invalid.counted() == {"a": 3}


def test_error_of_the_editor_names_the_remedy(
    invalid: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    for command, said in (
        ("", "there is no editor: set EDITOR, such as EDITOR=vi"),
        ("/no/such/editor", "EDITOR=/no/such/editor cannot be started"),
        (f"{shlex.quote(sys.executable)} -c 'import sys; sys.exit(3)'", "ended with 3"),
    ):
        monkeypatch.setenv("EDITOR", command)
        assert said in refused(invalid)


def test_message_whose_hold_lapsed_is_not_sent(
    invalid: Shop, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor.writes(VALID)
    monkeypatch.setattr(QueueWalk, "lapsed", 1)
    assert "could not be held while this command waited" in refused(invalid)
