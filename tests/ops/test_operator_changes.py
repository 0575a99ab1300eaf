"""Operator log: each change has an entry before it and one with its outcome, or is not made."""

import json
from typing import Any

import pytest

from once.ops import operator_changes
from once.ops.errors import OpsError
from once.ops.terminal import error_console
from tests.ops import support
from tests.ops.outboxes import REPUBLISH, commit_each
from tests.ops.shop import Shop

ROOT = "arn:aws:sts::123456789012:user/moto"
CHOSEN = ("--reason", "retries-exhausted")
REDRIVE = ("dlq", "redrive", "--yes", *CHOSEN, "--rate", 1000)


def test_entries_say_who_what_why_and_with_which_outcome(shop: Shop) -> None:
    shop.fail("a", "b")
    support.stdout_of(*REDRIVE, "--why", "stock was corrected")
    sent = {message["MessageId"] for message in shop.waiting()}
    intent, outcome = shop.cloud.logged()
    common = {
        "change": intent["change"],
        "who": ROOT,
        "command": "dlq redrive",
        "why": "stock was corrected",
        "arguments": {"reason": "retries-exhausted", "limit": 10_000, "service": "once"},
    }
    assert intent["phase"] == "intent"
    assert common.items() <= intent.items()
    assert common.items() <= outcome.items()
    assert outcome["phase"] == "outcome"
    assert outcome["outcome"] == "done"
    assert outcome["counts"] == {"sent": 2, "kept": 0, "failed": 0, "in_doubt": 0}
    assert set(outcome["message_ids"]) == sent
    assert intent["at"] < outcome["at"]


def changes(shop: Shop) -> dict[str, tuple[object, ...]]:
    """Every command that changes something, with its arguments."""
    commit_each(shop.cloud, "orders#a", age=1)
    shop.fail("a")
    return {
        "dlq redrive": REDRIVE,
        "dlq purge": ("dlq", "purge", "--yes", "--all", "--why", "tidy"),
        "outbox republish": (*REPUBLISH, "2h"),
    }


def test_a_change_that_cannot_be_logged_is_not_made(shop: Shop, tmp_path: Any) -> None:
    support.refuse("logs.PutLogEvents")
    for arguments in changes(shop).values():
        said = support.stderr_of(*arguments)
        assert (
            "nothing was changed: a change must be written to the operator log operator-log" in said
        )
        assert "have this action granted" in said
        assert shop.waiting() == []
        assert len(shop.dead_letters()) == 1
        assert shop.cloud.invocations == []
        assert not [*tmp_path.glob("*")]


def test_each_command_asks_and_is_logged_and_a_dry_run_is_not(shop: Shop) -> None:
    for command, arguments in changes(shop).items():
        before = len(shop.cloud.logged())
        support.stdout_of(*arguments, "--dry-run")
        if command.startswith("dlq"):  # the shop has no records to republish
            asking = support.stderr_of(*(one for one in arguments if one != "--yes"))
            assert "nothing was changed: answer y, or give --yes" in asking
        assert len(shop.cloud.logged()) == before
        support.stdout_of(*arguments)
        assert [(one["command"], one["phase"]) for one in shop.cloud.logged()[before:]] == [
            (command, "intent"),
            (command, "outcome"),
        ]
        shop.fail("b")


def test_clock_that_cloudwatch_refuses_stops_the_change(shop: Shop) -> None:
    shop.fail("a")
    refused = {"rejectedLogEventsInfo": {"tooNewLogEventStartIndex": 0}}
    support.answer_with("logs.PutLogEvents", lambda params: (support.OK, refused))
    assert "set the clock of this machine" in support.stderr_of(*REDRIVE)
    assert len(shop.dead_letters()) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_outcome_that_cannot_be_logged_is_told_and_hides_no_other_error(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    shop.fail("a")
    monkeypatch.setattr(error_console, "_width", 200)
    write = operator_changes._write

    def only_intent(*log: Any) -> None:
        if log[-1]["phase"] == "outcome":
            raise OpsError("no network")
        write(*log)

    monkeypatch.setattr(operator_changes, "_write", only_intent)
    if fails:
        support.refuse("sqs.SendMessageBatch", "Boom")
    said = support.words(support.run(*REDRIVE).stderr)
    outcome = "failed" if fails else "done"
    assert f"the outcome ({outcome}) could not be written to the operator log" in said
    assert ("Boom" in said) is fails


def test_no_key_is_logged(shop: Shop) -> None:
    shop.fail("customer-7")
    support.stdout_of("dlq", "redrive", "--yes", "--key", "id-customer-7", "--rate", 1000)
    assert "customer-7" not in json.dumps(shop.cloud.logged())
    assert shop.cloud.logged()[0]["arguments"]["key"].startswith("SHA-256 ")
