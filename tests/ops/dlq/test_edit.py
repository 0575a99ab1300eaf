"""`dlq redrive --edit`: the body may change, the event stays the same event."""

import json
from typing import Any

import pytest

from once.handlers.effect_declaration import Policy
from once.schema import DeadLetter
from tests.ops.editing import Editor, edit, refused
from tests.ops.letters import Shop, note
from tests.ops.support import Cloud, run


def test_an_edited_message_is_worked_on_and_the_edit_is_noted(shop: Shop, editor: Editor) -> None:
    shop.give_up(note("a", data={"amount": "three"}))
    before = shop.letter()
    editor.writes(note("a", data={"amount": 3}))
    result = edit(shop)
    assert result.exit_code == 0, result.output
    assert shop.letters() == []
    [message] = shop.waiting()
    assert message["MessageAttributes"][DeadLetter.LINEAGE]["StringValue"].endswith(" edited")
    assert message["MessageAttributes"][DeadLetter.KEY_HASH]["StringValue"] == before.key_hash


def test_an_edited_message_commits_once(shop: Shop, editor: Editor) -> None:
    shop.give_up(note("a", data={"amount": "three"}))
    editor.writes(note("a", data={"amount": 3}))
    edit(shop)
    shop.work_off()
    assert shop.counted() == {"a": 3}


def test_what_fails_again_shows_that_it_was_edited(shop: Shop, editor: Editor) -> None:
    shop.give_up(note("a", data={"amount": "three"}))
    editor.writes(note("a", data={"amount": "four"}))
    edit(shop)
    shop.work_off()
    assert [stay.edited for stay in shop.letter().lineage] == [True, False]
    assert ", edited" in run("dlq", "show", shop.letter().message_id).stdout


def test_a_body_that_nobody_could_read_is_mended(shop: Shop, editor: Editor) -> None:
    whole = json.dumps(note("a"))
    shop.give_up(whole[:-1])
    editor.writes(whole)
    assert edit(shop).exit_code == 0
    shop.work_off()
    assert shop.counted() == {"a": 1}


CHANGED_IDS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "id": (
        note("a"),
        note("a", event_id="b"),
        "from orders#event#/test#id-a to orders#event#/test#b",
        "put it back",
    ),
    "source": (
        note("a"),
        note("a", source="/else"),
        "from orders#event#/test#id-a to orders#event#/else#id-a",
        "put it back",
    ),
    "field": (
        note("a", "named"),
        note("b", "named", event_id="id-a"),
        "from orders#field#named#name#str:a to orders#field#named#name#str:b",
        "a new event with an id of its own",
    ),
}


@pytest.mark.parametrize("which", CHANGED_IDS)
def test_the_events_key_has_to_stay(shop: Shop, editor: Editor, which: str) -> None:
    was, changed, said, remedy = CHANGED_IDS[which]
    shop.give_up(was, error=ValueError())
    editor.writes(changed)
    text = refused(shop)
    assert f"the event's key would change, {said}" in text
    assert remedy in text


def test_content_that_is_its_own_key_has_to_stay(shop: Shop, editor: Editor) -> None:
    shop.give_up(note("a", "nameless", data={"amount": 1}), error=ValueError())
    editor.writes(note("a", "nameless", data={"amount": 2}))
    assert "the event's key would change" in refused(shop)


def test_an_event_whose_key_nobody_named_keeps_its_name(shop: Shop, editor: Editor) -> None:
    shop.move(note("a"))
    editor.writes(note("a", event_id="b"))
    said = "from source '/test' and id 'id-a' to source '/test' and id 'b'"
    assert said in refused(shop)


def test_where_nobody_named_the_key_no_field_that_may_be_in_it_is_changed(
    shop: Shop, editor: Editor
) -> None:
    shop.move(note("a", "named"))
    editor.writes(note("b", "named", event_id="id-a"))
    assert "nothing tells which of its fields are its key" in refused(shop)
    editor.writes(note("a", "named", data={"more": True}))
    assert edit(shop).exit_code == 0


def test_the_type_has_to_stay_for_its_handler_makes_the_key(shop: Shop, editor: Editor) -> None:
    shop.give_up(note("a"), error=ValueError())
    editor.writes(note("a", "named"))
    assert "its type would change" in refused(shop)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "no consumer could read it, unparseable"),
        ("", "no consumer could read it, unparseable"),
        (json.dumps(note("a") | {"id": None}), "no consumer could read it, no-key"),
        (json.dumps(note("a") | {"specversion": "2"}), "no consumer could read it, invalid-event"),
    ],
)
def test_a_body_that_nobody_could_read_is_refused(
    shop: Shop, editor: Editor, body: str, said: str
) -> None:
    shop.give_up(note("a"), error=ValueError())
    editor.writes(body)
    assert said in refused(shop)


@pytest.mark.parametrize("more", [{"amount": 9}, {"note": "new"}])
def test_a_committed_event_is_not_changed_afterwards(
    shop: Shop, editor: Editor, more: dict[str, Any]
) -> None:
    shop.give_up(note("a"), error=ValueError())
    shop.send(note("a"))
    shop.work_off()
    editor.writes(note("a", data=more))
    said = refused(shop)
    assert "other content was committed under its key orders#event#/test#id-a" in said
    assert "would come back as key-conflict" in said
    assert "have the producer send a new event" in said


def test_a_conflict_that_is_edited_back_is_a_duplicate(shop: Shop, editor: Editor) -> None:
    shop.send(note("a"))
    shop.work_off()
    shop.give_up(note("a", data={"amount": 9}))
    editor.writes(note("a"))
    assert edit(shop).exit_code == 0
    shop.work_off()
    assert shop.counted() == {"a": 1}
    assert shop.letters() == []


def test_an_edit_does_not_make_it_safe(cloud: Cloud, editor: Editor) -> None:
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        shop.outside.answers = [TimeoutError()]
        shop.give_up(note("a"))
        editor.writes(note("a") | {"time": "2026-07-30T14:00:00Z"})
        assert "NOT SAFE" in refused(shop)
