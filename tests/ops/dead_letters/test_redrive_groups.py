"""`dlq redrive` of messages with a group: fair ones, and those of FIFO queues in their order."""

import json
from typing import Any

import pytest

from once.failures.quarantine import text
from once.names import DeadLetterAttribute
from once.ops.dead_letters import redrive
from once.ops.dead_letters.dead_letter import WAITS, DeadLetter
from once.ops.dead_letters.redrive import redriven_message
from once.ops.dead_letters.search import QueueWalk
from once.ops.errors import ExitCode
from tests.ops.shop import Shop, note
from tests.ops.support import answer_with, facts, refusal, requests_of, run, stdout_of, words

REDRIVE = ("dlq", "redrive", "--yes", "--rate", 1000)


@pytest.fixture
def fifo(shop: Shop) -> Shop:
    """A shop whose consumer has FIFO queues."""
    shop.make_fifo()
    return shop


def test_a_message_of_a_standard_queue_keeps_its_message_group(shop: Shop) -> None:
    shop.sqs.send_message(
        QueueUrl=shop.box.url,
        MessageBody=json.dumps(note("a")),
        MessageAttributes=facts(reason="permanent"),
        MessageGroupId="tenant-1",
    )
    stdout_of(*REDRIVE)
    assert [each["Attributes"]["MessageGroupId"] for each in shop.waiting()] == ["tenant-1"]


def test_each_message_of_a_fifo_queue_is_sent_in_a_call_of_its_own(fifo: Shop) -> None:
    # Within one call, later messages would overtake a throttled one.
    asked = requests_of("sqs.SendMessageBatch")
    fifo.fail_in_groups("g-a", "g-b")
    stdout_of(*REDRIVE)
    assert [len(request["Entries"]) for request in asked] == [1, 1]


@pytest.mark.parametrize("fault", ["refused", "impossible"])
def test_after_a_message_that_is_not_sent_its_group_stays_in_order(
    fifo: Shop, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def refuse_second(params: Any) -> Any:
        return refusal("BatchRequestTooLong") if b"id-a-2" in params["body"] else None

    def fail_second(message: DeadLetter, *args: Any, **more: Any) -> Any:
        if "a-2" in message.original.body:
            raise ValueError
        return redriven_message(message, *args, **more)

    fifo.fail_in_groups("a-1", "a-2", "a-3", "b-1")
    with monkeypatch.context() as patch:
        if fault == "refused":
            answer_with("sqs.SendMessageBatch", refuse_second)
        else:
            patch.setattr(redrive, "redriven_message", fail_second)
        first, *others = json.loads(run(*REDRIVE, "--json").stdout)["failed"]
    assert fifo.arrived() == ["a-1", "b-1"]
    assert WAITS not in first
    assert [said.split(": ", 1)[1] for said in others] == [WAITS]


def test_message_that_is_sent_twice_is_deduplicated_by_sqs(
    fifo: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo.fail_in_groups("g-a")
    with monkeypatch.context() as patch:
        patch.setattr(QueueWalk, "delete", lambda walk, found: {found[0].message_id: "killed"})
        run(*REDRIVE)
    fifo.show_hidden()
    run(*REDRIVE)
    assert fifo.arrived() == ["g-a"]


GROUP = [f"a-{number}" for number in range(12)]
OTHERS = ["b-0", "c-0"]


@pytest.fixture
def ordered(fifo: Shop) -> Shop:
    """A FIFO consumer with twelve dead letters of one message group, and two of others."""
    fifo.fail_in_groups(*GROUP, *OTHERS)
    return fifo


def test_every_message_of_a_fifo_consumer_is_listed_filtered_and_redriven_in_order(
    ordered: Shop,
) -> None:
    found = json.loads(stdout_of("dlq", "list", "--json"))
    assert (found["looked_at"], len(found["letters"])) == (14, 14)
    assert "looked at 14 of about 14 dead letters\n" in stdout_of("dlq", "list")

    sent = run("dlq", "redrive", "--yes", "--key", "id-a-7", "--json")
    assert json.loads(sent.stdout)["sent"] == 1
    assert len(json.loads(sent.stdout)["overtaken"]) == 7
    assert "7 earlier messages of the same groups stay" in words(sent.stderr)
    assert ordered.arrived() == ["a-7"]

    sent = run(*REDRIVE, "--json")
    assert (json.loads(sent.stdout)["sent"], json.loads(sent.stdout)["overtaken"]) == (13, [])
    assert "warning" not in sent.stderr
    arrived = ordered.arrived()
    assert [name for name in arrived if name in GROUP] == [*GROUP[:7], *GROUP[8:]]
    assert sorted(set(arrived) - set(GROUP)) == OTHERS
    assert ordered.dead_letters() == []


def test_messages_that_come_back_keep_their_place_among_those_that_stayed(fifo: Shop) -> None:
    fifo.fail_in_groups("a-0", "a-1", "a-2", "a-3")
    run("dlq", "redrive", "--yes", "--key", "id-a-1")
    run("dlq", "redrive", "--yes", "--key", "id-a-0")
    fifo.outside.faults = {"a-0": ValueError("boom"), "a-1": ValueError("boom")}
    fifo.work_off(5)  # they are the last messages now
    assert len(fifo.dead_letters()) == 4
    stdout_of(*REDRIVE)
    assert fifo.arrived() == ["a-0", "a-1", "a-2", "a-3"]


def test_named_messages_are_sent_in_the_order_of_their_group(fifo: Shop) -> None:
    fifo.fail_in_groups("a-0", "a-1", "a-2")
    names = [message.message_id for message in fifo.dead_letters()]
    stdout_of(*REDRIVE, *reversed(names))
    assert fifo.arrived() == ["a-0", "a-1", "a-2"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_messages_behind_a_refused_one_of_their_group_stay(
    fifo: Shop, *, dry_run: bool
) -> None:
    fifo.fail_in_groups("a-0")
    fifo.send("{", "a")
    fifo.work_off()
    fifo.fail_in_groups("a-2", "b-0")
    told = run("dlq", "redrive", "--json", "--rate", 1000, "--dry-run" if dry_run else "--yes")
    found = json.loads(told.stdout)
    assert (found["sent"], len(found["kept"])) == (2, 1)
    [waiting] = found["failed"]
    assert waiting.endswith(WAITS)
    if dry_run:
        assert "1 of them behind another of its group" in run("dlq", "redrive").stdout
        assert len(fifo.dead_letters()) == 4
    else:
        assert fifo.arrived() == ["a-0", "b-0"]
        # It is sent when it is chosen without the other, with a warning.
        chosen = run("dlq", "redrive", "--yes", "--key", "id-a-2")
        assert "1 earlier messages of the same groups stay" in words(chosen.stderr)
        assert fifo.arrived() == ["a-2"]


def test_a_redrive_with_a_limit_says_that_it_has_not_read_all_of_a_group(ordered: Shop) -> None:
    sent = run(*REDRIVE, "--reason", "retries-exhausted", "--limit", 5)
    assert "earlier ones of the same message groups may stay: raise --limit" in words(sent.stderr)


@pytest.fixture
def moved(fifo: Shop) -> Shop:
    """A FIFO consumer of whose messages SQS has moved twelve of one group, and one of another."""
    for name in (*GROUP, "b-0"):
        fifo.sqs.send_message(
            QueueUrl=fifo.box.url,
            MessageBody=json.dumps(note(name)),
            MessageAttributes={DeadLetterAttribute.GROUP: text("forged 1")},
            MessageGroupId=name.partition("-")[0],
            MessageDeduplicationId=name,
        )
    return fifo


def test_messages_that_sqs_withholds_are_not_blamed_on_another_command(moved: Shop) -> None:
    told = run("dlq", "list")
    assert told.exit_code == ExitCode.HIDDEN
    assert "2 withheld by SQS behind earlier ones of their message group" in words(told.stdout)
    assert "redrive or purge the earlier ones, and run this command again" in words(told.stderr)
    assert "another command" not in told.output
    found = json.loads(run("dlq", "list", "--json").stdout)
    assert (found["hidden_by_other_commands"], found["withheld_by_sqs"]) == (None, 2)


def test_withheld_messages_follow_when_the_earlier_ones_were_sent(moved: Shop) -> None:
    sent = stdout_of(*REDRIVE, "--reason", "died", "--json")
    assert json.loads(sent)["sent"] == 13
    assert [name for name in moved.arrived() if name != "b-0"] == GROUP
