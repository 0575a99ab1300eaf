"""Receiving dead letters: each once, hidden meanwhile, and what another command hides is told."""

import re
import time
from datetime import UTC, datetime
from threading import Barrier, Event
from types import SimpleNamespace
from typing import Any

import pytest

from once.ops.aws import clients
from once.ops.aws.clients import client, depth
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import queue_walk
from once.ops.dead_letters.dead_letter import DeadLetter, DeadLetterQueue, dead_letter_queues
from tests.ops.shop import Shop
from tests.ops.support import OK, answer_with, refusal, requests_of, run, words

MANY = 23
BODIES = sorted(map(str, range(MANY)))


@pytest.fixture
def full(shop: Shop) -> Shop:
    for body in BODIES:
        shop.sqs.send_message(QueueUrl=shop.box.url, MessageBody=body)
    return shop


def walk_of(full: Shop, *more: DeadLetterQueue, limit: int = 1000) -> queue_walk.QueueWalk:
    return queue_walk.QueueWalk(client("sqs"), [full.box, *more], limit)


def all_of(found: queue_walk.QueueWalk) -> list[DeadLetter]:
    return [message for page in found.pages() for message in page]


def bodies(messages: list[DeadLetter]) -> list[str]:
    return sorted(message.original.body for message in messages)


def test_every_message_is_yielded_once_and_visible_afterwards(full: Shop) -> None:
    with walk_of(full) as found:
        messages = all_of(found)
        assert full.hidden() == len(found.held) == MANY
    assert bodies(messages) == BODIES
    assert found.looked_at == MANY
    assert (full.hidden(), len(found.held)) == (0, 0)
    assert depth(full.sqs, full.box.url).visible == MANY


def test_limit_that_the_first_messages_of_a_later_queue_exceed_ends_the_walk(full: Shop) -> None:
    for _ in range(8):
        full.cloud.bury("inventory")
    [other] = dead_letter_queues(Deployment.find(), "inventory")
    with walk_of(full, other, limit=MANY + 2) as found:
        assert len(all_of(found)) == MANY + 8
    assert not found.complete


def test_message_that_is_received_twice_counts_once(full: Shop) -> None:
    with walk_of(full) as found:
        pages = found.pages()
        first = next(pages)
        full.show_hidden()
        messages = [*first, *(message for page in pages for message in page)]
    assert bodies(messages) == BODIES
    assert full.hidden() == 0


def test_walk_ends_when_sqs_returns_the_same_messages_again_and_again(full: Shop) -> None:
    # Each hold lapses before the next call, as on a machine that is too slow to renew them.
    answer_with("sqs.ReceiveMessage", lambda params: full.show_hidden())
    with queue_walk.open_search([full.box], 1000) as found:
        assert len(all_of(found)) == 10
    assert not found.complete
    assert found.progress_text.startswith(
        f"looked at 10 of about {MANY} dead letters; SQS returned"
    )


@pytest.mark.parametrize("length", [36, queue_walk.SHOWN_ID])
def test_search_for_an_id_waits_for_no_empty_queue(full: Shop, length: int) -> None:
    empty = [one for one in dead_letter_queues(Deployment.find()) if one != full.box]
    asked = requests_of("sqs.ReceiveMessage")
    with queue_walk.open_search([*empty, full.box], 1000) as found:
        last = all_of(found)[-1].message_id
    asked.clear()
    with queue_walk.open_search([*empty, full.box], 1000) as found:
        [message] = queue_walk.messages_by_id(found, [last[:length]])
    assert message.message_id == last
    assert {request["QueueUrl"] for request in asked} == {full.box.url}
    assert full.hidden() == 0


def test_queues_are_read_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "THREADS", 2)
    both = Barrier(2, timeout=10)  # an error, if one queue is read after the other

    def receive_message(**_: Any) -> dict[str, Any]:
        both.wait()
        return {}

    queues = [DeadLetterQueue(name, f"https://sqs/{name}", None) for name in ("a", "b")]
    sqs: Any = SimpleNamespace(receive_message=receive_message)
    with queue_walk.QueueWalk(sqs, queues, 1000) as found:
        assert all_of(found) == []


def test_holds_that_end_soon_are_renewed(full: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = requests_of("sqs.ChangeMessageVisibilityBatch")
    with walk_of(full) as found:
        forgotten = all_of(found)[:2]
        found.delete(forgotten)
        assert [*found.renewals()] == []
        monkeypatch.setattr(queue_walk, "RENEW_BELOW_SECONDS", queue_walk.HOLD_SECONDS + 1)
        assert len([*found.renewals()]) == 3
    renewed = [entry for request in asked[:3] for entry in request["Entries"]]
    assert {entry["VisibilityTimeout"] for entry in renewed} == {queue_walk.HOLD_SECONDS}
    handles = {entry["ReceiptHandle"] for entry in renewed}
    assert len(handles) == MANY - 2
    assert not handles & {message.receipt_handle for message in forgotten}


def test_holds_are_renewed_while_a_walk_waits(full: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = Event()
    monkeypatch.setattr(queue_walk, "RENEW_BELOW_SECONDS", queue_walk.HOLD_SECONDS + 1)
    monkeypatch.setattr(queue_walk, "RENEW_EVERY_SECONDS", 0.01)
    answer_with("sqs.ChangeMessageVisibilityBatch", lambda params: renewed.set())
    with walk_of(full, limit=1) as found:
        all_of(found)
        with queue_walk.renewing(found):
            assert renewed.wait(10)
        assert full.hidden() == 1
    assert full.hidden() == 0


def test_hold_that_could_not_be_renewed_has_lapsed(
    full: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_walk, "RENEW_BELOW_SECONDS", queue_walk.HOLD_SECONDS + 1)
    answers = [refusal("AccessDenied")]
    answer_with(
        "sqs.ChangeMessageVisibilityBatch", lambda params: answers.pop() if answers else None
    )
    with walk_of(full, limit=2) as found:
        messages = all_of(found)
        assert [*found.renewals()] == [None]
        assert found.lapsed == 0
        now = time.time()
        monkeypatch.setattr("time.time", lambda: now + queue_walk.HOLD_SECONDS)
        assert found.lapsed == 2
        # SQS would accept it, although another command may have received the messages.
        assert [*found.renewals()] == found.renew(messages) == []
        assert found.lapsed == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal("AccessDenied"), id="call refused"),
        pytest.param(
            (OK, {"Failed": [{"Id": "0", "Code": "X"}, {"Id": "1", "Code": "X"}]}),
            id="entries refused",
        ),
    ],
)
def test_number_of_messages_that_stay_hidden_is_printed(
    full: Shop, capsys: pytest.CaptureFixture[str], answer: object
) -> None:
    answer_with("sqs.ChangeMessageVisibilityBatch", lambda params: answer)
    with queue_walk.open_search([full.box], limit=2) as walked:
        all_of(walked)
    assert "2 dead letters could not be given back" in capsys.readouterr().err
    assert full.hidden() == 2


def test_error_of_one_queue_makes_the_messages_of_others_visible(full: Shop) -> None:
    gone = DeadLetterQueue("gone", f"{full.box.url}-gone", None)
    found = walk_of(full, gone)
    with pytest.raises(full.sqs.exceptions.QueueDoesNotExist), found:
        all_of(found)
    assert full.hidden() == 0


PATTERNS = {
    "Unexpected: KeyError at meet:41: 'sku'": "Unexpected: KeyError at meet:…: 'sku'",
    "order 6e1c9f0a-77aa-4b11: 3.50 EUR at 2026-11-22T08:00:00Z": "order …: … EUR at …",
    "first\nsecond 2": "first",
    "a\x1b[31m": "a\\…[…",
    "x" * 1000: "x" * (queue_walk.MAX_CHARACTERS - 1) + "…",
    None: queue_walk.NO_ERROR,
    " ": queue_walk.NO_ERROR,
}


def test_pattern_has_no_ids_and_numbers() -> None:
    assert {error: queue_walk.error_pattern(error) for error in PATTERNS} == PATTERNS


HIDDEN = 3
"""The exit code."""
SAID = re.compile(r"(\d+) hidden until (\d\d:\d\d:\d\d) UTC, by another command")


def test_command_says_how_many_messages_are_hidden_and_until_when(shop: Shop) -> None:
    shop.fail("a", "b", "c")
    began = datetime.now(UTC).replace(year=1900, month=1, day=1)
    with queue_walk.QueueWalk(client("sqs"), [shop.box], limit=2) as walk:
        assert len([message for page in walk.pages() for message in page]) == 2
        for command in (
            "list",
            "list --reason died",
            "list --json",
            "redrive --yes",
            "purge --yes --all --why tidy",
        ):
            result = run("dlq", *command.split())
            assert result.exit_code == HIDDEN, result.output
            found = SAID.search(words(result.stderr))
            assert found, result.stderr
            assert found[1] == "2"
            until = datetime.strptime(found[2], "%H:%M:%S").replace(tzinfo=UTC)
            assert 0 <= (until - began).seconds <= queue_walk.HOLD_SECONDS + 30
            assert "run this command again then" in words(result.stderr)
        settle = "effects settle --not-done --why seen"
        for command in ("dlq show", "dlq redrive", "dlq redrive --edit", "dlq purge", settle):
            for name in ("0" * 8, "0" * 64):
                result = run(*command.split(), name)
                assert result.exit_code == HIDDEN
                said = f"there is no dead letter '{name}' among those that could be seen, and 2"
                assert said in words(result.stderr)
        result = run("trace", "no-such-id")
        assert result.exit_code == HIDDEN
        assert "dead letters that were not read: 2 hidden until" in words(result.stderr)
