"""Dead letters in the console: their pages, and redrive, edit and purge after a dry run."""

import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from once.names import RELAY, DeadLetterAttribute
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.console import dead_letter_pages
from once.ops.console.dead_letter_pages import QueueReading
from once.ops.console.jobs import Job, JobPhase
from once.ops.console.state import ConsoleState
from once.ops.dead_letters.assessment import RedriveOutcome
from once.ops.dead_letters.grouping import MessageRow
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.operator_notes import notes_of
from tests.ops.console.conftest import confirmed, page_of, planned
from tests.ops.hostile import MESSAGES, Mess, forged
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import add_to_answer, requests_of, run

Plan = Callable[..., Job]
Confirm = Callable[[Job], str]


@pytest.fixture
def state(shop: Shop) -> ConsoleState:
    """The console of a deployment whose consumer `orders` writes real dead letters."""
    return ConsoleState(Deployment.find())


@pytest.fixture
def plan(browser: TestClient, state: ConsoleState) -> Plan:
    """Posts a form that plans a job; returns the job."""

    return lambda path, **form: planned(browser, state, path, **form)


@pytest.fixture
def confirm(browser: TestClient, state: ConsoleState) -> Confirm:
    """Confirms a job, and returns its page after its end."""
    return lambda job: words(confirmed(browser, state, job, "mended"))


def words(html: str) -> str:
    """The page's text with single blanks."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


BACKGROUND = {"sec-fetch-dest": "empty"}


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_pages, "FRESH_SECONDS", -1)


def test_messages_that_failed_alike_are_one_group_with_their_verdicts(
    browser: TestClient, shop: Shop
) -> None:
    for number in range(3):
        shop.dead_letter(note(f"a{number}"), error=ValueError(f"order 7f{number} has no price"))
    shop.dead_letter(note("b"), error=KeyError("sku"))
    shop.dead_letter("{")
    text = browser.get("dead-letters").text
    assert words(text).count("orders, ") == 3
    assert "Unexpected: ValueError at meet:…: order … has no price" in text
    assert 'aria-label="3 dead letters since 20' in text
    assert "3 after the repair" in words(text)
    assert "from /test (3)" in words(text)
    assert "from an unreadable body (1)" in words(text)
    letters = words(browser.get("dead-letters/letters").text)
    assert "noted id-b from /test" in letters
    assert "1 fails again" in words(text)
    assert shop.hidden() == 0


FILTERS = {
    f"?consumer={RELAY}": 1,
    "?since=1h&key=orders%23event": 2,
    "?until=1h": 0,
    "?reason=retries-exhausted&error=Unexpected:%20ValueError%20at%20meet:41:%20boom": 2,
}


def test_filters_select_what_the_commands_select(browser: TestClient, shop: Shop) -> None:
    shop.fail("a", "b")
    shop.dead_letter("{")
    shop.cloud.bury(RELAY, "event")
    for query, number in FILTERS.items():
        rows = browser.get(f"dead-letters/letters{query}").text.count("<tr>\n")
        assert rows == number, query
        shown = words(browser.get(f"dead-letters{query}").text)
        assert (f"All {number} messages" in shown) is bool(number)
    for query in ("reason=none", "until=soon"):
        answer = browser.get(f"dead-letters?{query}")
        assert answer.status_code == 400
        assert query.partition("=")[2] in answer.text


def test_pages_of_ten_thousand_messages_are_small(browser: TestClient, state: ConsoleState) -> None:
    safe, now = RedriveOutcome.SAFE, datetime.now(UTC)
    rows = [
        MessageRow(
            consumer="orders",
            message_id=str(UUID(int=number)),
            reason="permanent",
            error=f"{number % 200} {'<&>' * 50}",
            sent_at=now - timedelta(seconds=number),
            event_type="order.placed",
            event_id=f"<{number}>" * 20,
            producer="/shop",
            about=None,
            excerpt="{",
            key=None,
            kind=safe,
            advice="<fix it first>" * 40,
            action="redrive",
        )
        for number in range(10_000)
    ]
    state.messages.latest(None, lambda: QueueReading(rows, "10,000 messages"), 15)
    for path in ("dead-letters", "dead-letters/letters", "dead-letters/letters?page=99"):
        text = browser.get(path, headers=BACKGROUND).text
        assert "order.placed" in text or "160 older groups are not shown" in text
        assert len(text) < 200_000


def test_page_that_is_read_again_in_the_background_receives_no_message(
    browser: TestClient, shop: Shop
) -> None:
    shop.fail("a")
    browser.get("dead-letters")
    received = requests_of("sqs.ReceiveMessage")
    assert "boom" in browser.get("dead-letters", headers=BACKGROUND).text
    assert received == []
    browser.get("dead-letters")
    assert received


def test_message_has_all_that_the_command_shows(browser: TestClient, shop: Shop) -> None:
    shop.process(note("a"))
    shop.dead_letter(note("a", data={"amount": 9}), tenant="x")
    message = shop.only_dead_letter()
    text = html.unescape(browser.get(f"dead-letters/orders/{message.message_id}").text)
    for page in (text, browser.get("dead-letters/letters?reason=key-conflict").text):
        [about] = re.findall(r'<a href="([^"]+)"><code>once explain key-conflict</code></a>', page)
        explained = browser.get(about.removeprefix("/a-token/")).text
        assert "under the same key with other content" in explained
    assert "accepted, committed at" in text
    assert f"<dd>{KEY}\n" in text
    assert '"tenant"' in text
    assert 'class="verdict fails-again"' in text
    assert 'class="danger primary"' in text  # the verdict says to purge it
    assert text.index("Archive and delete…") < text.index("Redrive although it fails again…")
    assert "message?key=id-a&source=%2Ftest" in text
    assert '"amount": 9' in text
    assert json.dumps(note("a", data={"amount": 9})) in text  # as it was received


def test_every_page_shows_any_message(mess: Mess, browser: TestClient) -> None:
    owners = mess.fill([forged("<script>alert(1)</script>\u202e\x1b[31m"), *MESSAGES[::12]])
    shown(browser, "dead-letters")
    shown(browser, "dead-letters/letters")
    for message_id, owner in owners.items():
        shown(browser, f"dead-letters/{owner}/{message_id}")
        shown(browser, f"dead-letters/{owner}/{message_id}/edit")
    assert mess.left() == len(owners)


def shown(browser: TestClient, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    assert len(answer.content) < 200_000
    assert "unexpected" not in answer.text
    assert "<script>alert" not in answer.text
    assert all(c.isprintable() or c in "\n\t" for c in answer.text)


FAST = {"rate": "1000"}


def test_console_and_command_leave_the_same_entries(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a")
    confirm(plan("dead-letters/redrive", reason="retries-exhausted", key="id-a", rate="10"))
    shop.waiting()  # hides the message that was sent
    shop.fail("a")
    chosen = ("--reason", "retries-exhausted", "--key", "id-a", "--rate", "10")
    run("dlq", "redrive", *chosen, "--why", "mended", "--yes")
    console, command = [one for one in shop.cloud.logged() if one["phase"] == "outcome"]
    for entry in (console, command):
        for name in ("change", "at", "message_ids"):
            del entry[name]
    assert console == command
    assert "id-a" not in json.dumps(console)


def test_messages_that_come_back_are_sent_if_this_is_chosen(
    browser: TestClient, state: ConsoleState, shop: Shop, plan: Plan
) -> None:
    for _ in range(12):
        shop.dead_letter("{")
    job = plan("dead-letters/redrive", reason="unparseable")
    assert job.changes == 0
    shown = browser.get(page_of(state, job)).text
    assert "12 fail again" in words(shown)
    assert shown.count("once dlq redrive MESSAGE_ID --edit") == 1  # and not once for each
    assert "Plan again, and send also the 12 that will fail again" in shown
    assert job.instead is not None
    again = plan("dead-letters/redrive", **dict(job.instead.fields))
    assert (again.changes, again.instead) == (12, None)
    button = re.search(
        r"<button([^>]*)>Redrive 12 dead letters", browser.get(page_of(state, again)).text
    )
    assert button is not None
    assert button[1] == ""  # not the advised action


def test_unsafe_message_is_never_sent(shop: Shop, plan: Plan) -> None:
    shop.cloud.bury("orders", json.dumps(note("a")), reason="effect-unknown", key=KEY)
    forms: list[dict[str, Any]] = [
        {"reason": "effect-unknown", "returning": "yes", "unsafe": "yes"},
        {
            "which": "chosen",
            "id": shop.only_dead_letter().message_id,
            "returning": "yes",
            "unsafe": "true",
        },
    ]
    for form in forms:
        job = plan("dead-letters/redrive", **form)
        assert job.changes == 0
        assert [(one.kind, one.action) for one in job.groups] == [("needs-a-person", "stay")]
        assert job.instead is None


def test_message_that_changed_or_arrived_since_the_dry_run_stays(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a", "b")
    job = plan("dead-letters/redrive", **FAST)
    shop.process(note("a"))  # its producer has sent it again, and it was committed
    shop.fail("c")
    text = confirm(job)
    assert "sent 1 kept 1" in text
    assert "stayed, as its verdict is now: Done already" in text
    assert len(shop.dead_letters()) == 2


def test_message_that_another_command_holds_or_sent_is_told(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a", "b")
    job = plan("dead-letters/redrive", **FAST)
    again = plan("dead-letters/redrive", **FAST)
    with QueueWalk(client("sqs"), [shop.box], limit=1) as walk:
        assert [*walk.pages()]
        text = confirm(job)
        assert "sent 1" in text
        assert "1 messages of the dry run were not found: sent, deleted or hidden by" in text
    assert "sent 1" in (text := confirm(again))
    assert "1 messages of the dry run were not found: sent or deleted meanwhile" in text
    assert len(shop.waiting()) == 2


def test_form_that_cannot_be_read_is_an_error(browser: TestClient) -> None:
    for form, said in (
        ({"which": "chosen"}, "no message is chosen"),
        ({"rate": "0"}, "'0' is no number"),
        ({"rate": "nan"}, "'nan' is no number"),
        ({"reason": "none"}, "'none' is none"),
    ):
        answer = browser.post("dead-letters/redrive", data=form)
        assert answer.status_code == 400
        assert said in html.unescape(answer.text)


def test_stop_ends_a_redrive_between_calls(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail("a", "b", "c", *map(str, range(10)))
    job = plan("dead-letters/redrive", rate="1")
    add_to_answer("sqs.SendMessageBatch", lambda _: job.progress.stop.set())
    shown = confirm(job)
    assert "1 certainly sent back" in shown
    assert "were not found" not in shown
    assert job.phase is JobPhase.STOPPED
    assert len(shop.dead_letters()) == 12
    outcome = shop.cloud.logged()[-1]
    assert (outcome["outcome"], outcome["counts"]["sent"]) == ("stopped", 1)


def test_edited_message_keeps_its_identity_and_history(
    shop: Shop, plan: Plan, confirm: Confirm, browser: TestClient
) -> None:
    shop.dead_letter(note("a", data={"amount": "three", "sent": "\x7f\u202e"}))
    path = f"dead-letters/orders/{shop.only_dead_letter().message_id}/edit"
    form = browser.get(path).text
    assert "\\u007f\\u202e" in form
    text = html.unescape(form.partition("<textarea")[2].partition("</textarea>")[0])
    text = text.partition(">\n")[2].replace('"three"', "3").replace("\n", "\r\n")
    job = plan(path, body=text)
    told = "\n".join(job.plan)
    assert "Dedup key: orders#event#/test#id-a, before: orders#event#/test#id-a." in told
    assert [(one.kind, one.action) for one in job.groups] == [("safe", "will be sent")]
    assert "sent 1" in confirm(job)
    [message] = shop.waiting()
    assert message["MessageAttributes"][DeadLetterAttribute.LINEAGE]["StringValue"].endswith(
        " edited"
    )
    assert json.loads(message["Body"])["data"]["sent"] == "\x7f\u202e"
    [entry] = [one for one in shop.cloud.logged() if one["phase"] == "outcome"]
    assert (entry["command"], entry["arguments"]["edit"]) == ("dlq redrive", True)


def test_edit_that_may_not_be_sent_is_refused(shop: Shop, browser: TestClient) -> None:
    shop.fail("a")
    path = f"dead-letters/orders/{shop.only_dead_letter().message_id}/edit"
    for text, status, said in (
        (json.dumps(note("a", event_id="b")), 422, "the event's key would change"),
        ("{", 422, "no consumer could read it"),
        (json.dumps(note("a"), indent=2), 409, "the body was not changed"),
    ):
        answer = browser.post(path, data={"body": text})
        assert answer.status_code == status
        assert said in html.unescape(answer.text)
    assert shop.waiting() == []


def test_archive_can_be_imported_again(
    browser: TestClient, state: ConsoleState, shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a", "b")
    job = plan("dead-letters/purge", consumer="orders")
    assert "say why" in browser.post(f"{page_of(state, job)}/start").text
    assert job.phase is JobPhase.PLANNED
    assert (notes_of(state.deployment).archives, job.changes) == ([], 2)
    shop.fail("c")  # arrives after the dry run, and stays
    text = confirm(job)
    [archive] = notes_of(state.deployment).archives
    assert (archive.number, archive.why) == (2, "mended")
    assert archive.name in text
    assert len(shop.dead_letters()) == 1
    intent, outcome = shop.cloud.logged()
    assert (intent["command"], outcome["counts"]) == ("dlq purge", {"deleted": 2, "failed": 0})
    assert "Plan the import of" in text
    state.readings._kept.clear()
    assert archive.name in browser.get("dead-letters").text
    job = plan("dead-letters/import", archive=archive.name)
    assert job.changes == 2
    assert "imported 2" in confirm(job)
    assert len(shop.dead_letters()) == 3
    job = plan("dead-letters/import", archive=archive.name)
    assert (job.changes, job.instead) == (0, None)
    assert "2 are there already" in "".join(job.plan)
    assert shop.cloud.logged()[-1]["command"] == "dlq import"


def test_an_archive_that_does_not_exist_is_not_imported(browser: TestClient) -> None:
    for name in ("", "../other"):
        answer = browser.post("dead-letters/import", data={"archive": name})
        assert answer.status_code == 404
        assert "there is no archive" in answer.text


def test_edit_of_an_event_that_was_committed_meanwhile_is_not_sent(
    shop: Shop, plan: Plan, confirm: Confirm
) -> None:
    shop.fail("a")
    path = f"dead-letters/orders/{shop.only_dead_letter().message_id}/edit"
    job = plan(path, body=json.dumps(note("a", data={"amount": 3})))
    shop.process(note("a"))
    assert "other content was committed under its key" in html.unescape(confirm(job))
    assert job.phase is JobPhase.FAILED
    assert len(shop.dead_letters()) == 1
