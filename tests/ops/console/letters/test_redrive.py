"""Redrive in the console: a dry run, a confirmation, and the letters assessed again."""

import html
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from once.names import DeadLetter
from once.ops.aws.clients import client
from once.ops.console.jobs import Job, JobPhase
from once.ops.dead_letters.search import QueueWalk
from tests.ops.console.letters.conftest import Plan
from tests.ops.letters import Shop
from tests.ops.notes import KEY, note
from tests.ops.support import add_to_answer, run

Confirm = Callable[[Job], str]
FAST = {"rate": "1000"}


def test_group_is_redriven_as_the_dry_run_says(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail("a", "b")
    shop.dead_letter("{")
    job = plan("dead-letters/redrive", consumer="orders", reason="retries-exhausted", **FAST)
    assert job.title == "Redrive 2 dead letters"
    assert "would be sent: 2" in job.plan[0]
    assert shop.cloud.logged() == []
    assert shop.hidden() == 0
    assert "sent 2 kept 0 failed 0" in confirm(job)
    assert len(shop.waiting()) == 2
    assert [letter.reason for letter in shop.letters()] == ["unparseable"]


def test_console_and_command_leave_the_same_entries(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a")
    job = plan("dead-letters/redrive", reason="retries-exhausted", key="id-a", rate="10")
    assert job.command == ("once dlq redrive --reason retries-exhausted --key id-a --rate 10")
    confirm(job)
    shop.waiting()  # hides the message that was sent
    shop.fail("a")
    run(*job.command.split()[1:], "--why", "mended")
    console, command = [one for one in shop.cloud.logged() if one["phase"] == "outcome"]
    for entry in (console, command):
        for name in ("change", "at", "message_ids"):
            del entry[name]
    assert console == command
    assert "id-a" not in json.dumps(console)


def test_letters_that_come_back_are_sent_if_this_is_chosen(shop: Shop, plan: Plan) -> None:
    shop.dead_letter("{")
    assert plan("dead-letters/redrive").changes == 0
    assert plan("dead-letters/redrive", reason="unparseable").changes == 0
    assert plan("dead-letters/redrive", reason="unparseable").command is None  # it would send it
    assert plan("dead-letters/redrive", returning="yes").changes == 1


def test_unsafe_letter_is_never_sent(shop: Shop, plan: Plan) -> None:
    shop.cloud.bury("orders", json.dumps(note("a")), reason="effect-unknown", key=KEY)
    forms: list[dict[str, Any]] = [
        {"reason": "effect-unknown", "returning": "yes", "unsafe": "yes"},
        {"which": "chosen", "id": shop.letter().message_id, "returning": "yes", "unsafe": "true"},
    ]
    for form in forms:
        job = plan("dead-letters/redrive", **form)
        assert job.changes == 0
        assert "NOT SAFE" in job.plan[-1]


def test_letter_that_changed_since_the_dry_run_stays(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a", "b")
    job = plan("dead-letters/redrive", **FAST)
    shop.process(note("a"))  # its producer has sent it again, and it was committed
    text = confirm(job)
    assert "sent 1 kept 1" in text
    assert "stayed, as its verdict is now: safe, a duplicate" in text
    assert len(shop.letters()) == 1


def test_letter_that_arrived_since_the_dry_run_stays(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a")
    job = plan("dead-letters/redrive", **FAST)
    shop.fail("b")
    assert "sent 1 kept 0" in confirm(job)
    assert len(shop.letters()) == 1


def test_letter_that_another_command_holds_or_sent_is_told(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a", "b")
    job = plan("dead-letters/redrive", **FAST)
    again = plan("dead-letters/redrive", **FAST)
    with QueueWalk(client("sqs"), [shop.box], limit=1) as walk:
        assert [*walk.pages()]
        text = confirm(job)
        assert "sent 1" in text
        assert "1 letters of the dry run were not found: sent, deleted or hidden by" in text
    assert "sent 1" in (text := confirm(again))
    assert "1 letters of the dry run were not found: sent or deleted meanwhile" in text
    assert len(shop.waiting()) == 2


def test_chosen_letters_alone_are_sent(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail("a", "b", "c")
    ids = [letter.message_id for letter in shop.letters()]
    confirm(plan("dead-letters/redrive", which="chosen", id=ids[:2], consumer="orders", **FAST))
    assert [letter.message_id for letter in shop.letters()] == ids[2:]
    assert shop.cloud.logged()[0]["arguments"]["message_ids"] == ids[:2]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"which": "chosen"}, "no letter is chosen"),
        ({"rate": "0"}, "'0' is no rate"),
        ({"rate": "nan"}, "'nan' is no rate"),
        ({"reason": "none"}, "'none' is none"),
    ],
)
def test_form_that_cannot_be_read_is_an_error(
    browser: TestClient, form: dict[str, str], said: str
) -> None:
    answer = browser.post("dead-letters/redrive", data=form)
    assert answer.status_code == 400
    assert said in html.unescape(answer.text)


def test_stop_ends_a_redrive_between_calls(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail("a", "b", "c")
    job = plan("dead-letters/redrive", rate="1")
    add_to_answer("sqs.SendMessageBatch", lambda _: job.progress.stop.set())
    assert "1 certainly sent back" in confirm(job)
    assert job.phase is JobPhase.STOPPED
    assert len(shop.letters()) == 2
    outcome = shop.cloud.logged()[-1]
    assert (outcome["outcome"], outcome["counts"]["sent"]) == ("stopped", 1)


def test_edited_letter_keeps_its_identity_and_history(
    shop: Shop, plan: Plan, confirm: Confirm, browser: TestClient
) -> None:
    shop.dead_letter(note("a", data={"amount": "three", "sent": "\x7f\u202e"}))
    path = f"dead-letters/orders/{shop.letter().message_id}/edit"
    form = browser.get(path).text
    assert "\\u007f\\u202e" in form
    text = html.unescape(form.partition("<textarea")[2].partition("</textarea>")[0])
    text = text.partition(">\n")[2].replace('"three"', "3").replace("\n", "\r\n")
    job = plan(path, body=text)
    told = "\n".join(job.plan)
    assert "dedup key: orders#event#/test#id-a, before: orders#event#/test#id-a" in told
    assert "fingerprint: " in told
    assert "safe: no record of it was found" in told
    assert "sent 1" in confirm(job)
    [message] = shop.waiting()
    assert message["MessageAttributes"][DeadLetter.LINEAGE]["StringValue"].endswith(" edited")
    assert json.loads(message["Body"])["data"]["sent"] == "\x7f\u202e"
    [entry] = [one for one in shop.cloud.logged() if one["phase"] == "outcome"]
    assert (entry["command"], entry["arguments"]["edit"]) == ("dlq redrive", True)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (note("a", event_id="b"), 422, "the event's key would change"),
        ("{", 422, "no consumer could read it"),
        (note("a"), 502, "the body was not changed"),
    ],
)
def test_edit_that_may_not_be_sent_is_refused(
    shop: Shop, browser: TestClient, body: Any, status: int, said: str
) -> None:
    shop.fail("a")
    path = f"dead-letters/orders/{shop.letter().message_id}/edit"
    text = body if isinstance(body, str) else json.dumps(body, indent=2)
    answer = browser.post(path, data={"body": text})
    assert answer.status_code == status
    assert said in html.unescape(answer.text)
    assert shop.waiting() == []


def test_edit_of_an_event_that_was_committed_meanwhile_is_not_sent(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a")
    path = f"dead-letters/orders/{shop.letter().message_id}/edit"
    job = plan(path, body=json.dumps(note("a", data={"amount": 3})))
    shop.process(note("a"))
    assert "other content was committed under its key" in html.unescape(confirm(job))
    assert job.phase is JobPhase.FAILED
    assert len(shop.letters()) == 1
