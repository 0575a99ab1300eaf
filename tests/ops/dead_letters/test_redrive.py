"""`dlq redrive`: unchanged, with history, in the order of groups, also while SQS refuses calls."""

import json
import re
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from once.effects.declaration import Policy
from once.failures.quarantine import text
from once.names import RELAY, DeadLetterAttribute, Limits
from once.ops.aws.clients import ATTEMPTS, RateLimiter
from once.ops.dead_letters import redrive as redrive_module
from once.ops.dead_letters.dead_letter import WAITS, DeadLetter
from once.ops.dead_letters.dead_letter_text import stayed_lines
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive import redriven_message
from once.ops.errors import ExitCode
from tests.ops import support
from tests.ops.cloud import Cloud
from tests.ops.shop import Shop, note
from tests.ops.support import answer_with, facts, refusal, requests_of, run, stdout_of, words

REDRIVE = ("dlq", "redrive", "--rate", "1000", "--yes", "--returning")


def redrive(*options: object) -> str:
    return support.stdout_of(*REDRIVE, *options)


def test_redriven_message_has_the_producers_body_and_attributes_and_its_history(shop: Shop) -> None:
    shop.dead_letter(note("a"), error=ValueError(), tenant="é{}", traceparent="00-1")
    redrive()
    [message] = shop.waiting()
    assert json.loads(message["Body"]) == note("a")
    kept = json.loads(message["MessageAttributes"][DeadLetterAttribute.ATTRIBUTES]["StringValue"])
    assert {name: value["stringValue"] for name, value in kept.items()} == {
        "tenant": "é{}",
        "traceparent": "00-1",
    }
    history = {DeadLetterAttribute.LINEAGE, DeadLetterAttribute.FIRST_SEEN, DeadLetterAttribute.KEY}
    assert set(message["MessageAttributes"]) == {DeadLetterAttribute.ATTRIBUTES, *history}


def test_message_moved_by_sqs_keeps_all_of_its_attributes(shop: Shop) -> None:
    shop.send(note("a"), **{f"a{n}": "x" for n in range(10)})
    shop.move_received(shop.waiting())
    redrive()
    [message] = shop.waiting()
    assert len(message["MessageAttributes"]) <= 10
    kept = message["MessageAttributes"][DeadLetterAttribute.ATTRIBUTES]
    assert len(json.loads(kept["StringValue"])) == 10


def test_message_that_fails_again_shows_its_lineage(shop: Shop) -> None:
    shop.fail("a")
    first = shop.only_dead_letter()
    redrive()
    shop.outside.faults["a"] = KeyError()
    shop.work_off(receive_count=5)
    redrive()
    shop.move_received(shop.waiting())
    redrive()
    shop.move_received(shop.waiting())
    last = shop.only_dead_letter()
    reasons = [stay.reason for stay in last.lineage]
    assert reasons == ["retries-exhausted", "retries-exhausted", "died", None]
    assert [stay.edited for stay in last.lineage] == [False] * 4
    assert last.lineage[0].message_id == first.lineage[0].message_id
    assert (last.first_seen, last.key) == (first.first_seen, first.key)
    assert last.sent_at > first.sent_at
    shown = support.words(support.stdout_of("dlq", "show", last.message_id))
    assert f"{first.lineage[0].message_id}: retries-exhausted, sent back at 20" in shown


@pytest.mark.parametrize(("spare", "stays"), [(0, 1), (2000, 2)])
def test_large_message_goes_back_with_its_history_if_that_fits(
    shop: Shop, spare: int, stays: int
) -> None:
    body = "x" * (Limits.MESSAGE_BYTES - spare)
    shop.dead_letter(body)
    redrive()
    [message] = shop.waiting()
    assert message["Body"] == body
    assert DeadLetterAttribute.ORIGINAL_GZIP not in message.get("MessageAttributes", {})
    shop.move_received([message])
    dead_letter = shop.only_dead_letter()
    assert dead_letter.original.body == body
    assert len(dead_letter.lineage) == stays


def test_dry_run_shows_verdicts_and_sends_nothing(shop: Shop) -> None:
    shop.fail("a")
    shop.dead_letter("{")
    ids = [message.message_id for message in shop.dead_letters()]
    output = support.stdout_of("dlq", "redrive", "--dry-run")
    assert all(one in output for one in ids)
    assert "~ After the repair. It will be processed once" in support.words(output)
    assert "would be sent: 1 (1 after the repair); would stay: 1 (1 fails again)" in support.words(
        output
    )
    found = json.loads(support.stdout_of("dlq", "redrive", "--dry-run", "--json"))
    assert (found["dry_run"], found["sent"]) == (True, 1)
    assert [one["verdict"] for one in found["planned"]] == ["after-repair"]
    assert shop.waiting() == []
    assert shop.hidden() == 0
    assert len(shop.dead_letters()) == 2


@pytest.mark.parametrize(
    ("options", "answer", "code", "sent"),
    [
        pytest.param("", "y\n", 1, ["id-a"], id="messages that fail again stay"),
        pytest.param("--yes", None, 1, ["id-a"], id="without asking"),
        pytest.param("--returning", "y\n", 0, ["id-a", None], id="they are sent on demand"),
        pytest.param("--reason unparseable", "y\n", 0, [None], id="a filter chooses them"),
        pytest.param("--reason unparseable --yes", None, 1, [], id="unless no plan is seen"),
        pytest.param("--consumer orders", "n\n", 1, [], id="a consumer is no filter"),
        pytest.param("", None, 1, [], id="no answer"),
    ],
)
def test_redrive_without_a_filter_asks_and_leaves_out_what_would_come_back(
    shop: Shop, options: str, answer: str | None, code: int, sent: list[str | None]
) -> None:
    shop.fail("a")
    shop.dead_letter("{")
    result = support.run("dlq", "redrive", "--rate", 1000, *options.split(), answer=answer)
    assert result.exit_code == code, result.output
    asked = re.findall(r"send (\d) dead letters? back", result.stderr)
    is_asked = "--yes" not in options
    assert asked == ([str(len(sent) or 1)] if is_asked else [])
    bodies = [message["Body"] for message in shop.waiting()]
    assert sorted(map(str, sent)) == sorted(
        "None" if body == "{" else json.loads(body)["id"] for body in bodies
    )
    assert shop.hidden() == 0
    if is_asked and code and not sent:
        assert "nothing was changed: answer y, or give --yes" in support.words(result.stderr)
    if code and (sent or not is_asked):
        assert support.numbers(result.stdout)["left, fails again"] == "1"
        assert "Fails again. It will be" in result.stderr


@pytest.fixture
def unsafe(cloud: Cloud) -> Iterator[Shop]:
    """A shop with an unsafe message, and one that is safe."""
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        shop.outside.answers = [TimeoutError()]
        shop.dead_letter(note("a"))
        shop.dead_letter("{")
        yield shop


def test_unsafe_message_stays_and_is_reported(unsafe: Shop) -> None:
    message_id = unsafe.dead_letters()[0].message_id
    result = support.run(*REDRIVE)
    assert result.exit_code == 1
    assert support.numbers(result.stdout)["left, needs a person"] == "1"
    said = f"{message_id}: Needs a person. The effect 'charge' may have been done"
    assert said in result.stderr
    assert f"once effects settle {message_id} --done" in result.stderr
    assert [dead_letter.message_id for dead_letter in unsafe.dead_letters()] == [message_id]
    assert [message["Body"] for message in unsafe.waiting()] == ["{"]


def test_advice_on_several_messages_is_told_once_with_their_ids(unsafe: Shop) -> None:
    unsafe.outside.answers = [TimeoutError()]
    unsafe.dead_letter(note("b"))
    names = [one.message_id for one in unsafe.dead_letters() if "charge" in str(one.error)]
    said = support.stderr_of(*REDRIVE)
    assert len(names) == 2
    assert "2 dead letters stayed: 2 messages: Needs a person. The effect 'charge' may" in said
    assert said.count("Find out at the provider") == said.count("settle MESSAGE_ID --done") == 1
    assert [said.count(name) for name in names] == [1, 1]


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ((6, 6), "Version 6 serves: purge MESSAGE_ID"),
        ((6, 7), "Version … serves: purge MESSAGE_ID"),
    ],
)
def test_advice_has_what_the_messages_share(at: tuple[int, int], told: str) -> None:
    assessed: list[Any] = [
        SimpleNamespace(message=SimpleNamespace(message_id=name), verdict=text)
        for name, text in ((f"m-{n}", f"Version {v} serves: purge m-{n}") for n, v in enumerate(at))
    ]
    assert [*stayed_lines(assessed)] == [f"2 messages: {told}", "    m-0", "    m-1"]
    assert [*stayed_lines(assessed[:1])] == ["m-0: Version 6 serves: purge m-0"]


def test_unsafe_message_is_sent_only_by_its_id_and_the_option(unsafe: Shop) -> None:
    message_id = unsafe.dead_letters()[0].message_id
    assert support.run("dlq", "redrive", "--yes", message_id).exit_code == 1
    assert len(unsafe.dead_letters()) == 2
    planned = support.stdout_of("dlq", "redrive", message_id, "--unsafe", "--dry-run")
    assert "would be sent: 1 (1 needs a person)" in planned
    redrive(message_id, "--unsafe")
    assert message_id not in [message.message_id for message in unsafe.dead_letters()]


REFUSED = {
    "--unsafe": (2, "is for dead letters that are named"),
    "--edit": (2, "changes one dead letter: name it"),
    "--edit a b": (2, "changes one dead letter: name it"),
    "a --edit --json": (2, "--json"),
    "a --reason died": (2, "leave the filters or the ids out"),
    f"--consumer {RELAY}": (1, "outbox republish"),
}


@pytest.mark.usefixtures("cloud")
def test_invalid_options_are_refused() -> None:
    for options, (code, said) in REFUSED.items():
        assert said in support.stderr_of("dlq", "redrive", *options.split(), code=code)


def test_messages_dead_lettered_again_are_not_sent_a_second_time(shop: Shop) -> None:
    shop.dead_letter(*["{"] * 12)
    support.answer_with("sqs.DeleteMessageBatch", lambda params: shop.work_off())
    assert support.numbers(redrive("--limit", 100)) == {
        "sent back": "12",
        "of these, will fail again": "12",
        "left, needs a person": "0",
        "left, fails again": "0",
        "failed": "0",
        "sent back, and here again": "12",
    }
    assert len(shop.dead_letters()) == 12


def test_only_the_message_that_is_too_large_for_a_call_stays(shop: Shop) -> None:
    def answer(params: Any) -> Any:
        return support.refusal("BatchRequestTooLong") if b"id-a" in params["body"] else None

    shop.fail("a", "b")
    support.answer_with("sqs.SendMessageBatch", answer)
    assert "not sent: An error occurred" in support.stderr_of(
        "dlq", "redrive", "--rate", "1", "--yes"
    )
    assert [json.loads(message["Body"]) for message in shop.waiting()] == [note("b")]
    assert [json.loads(one.original.body) for one in shop.dead_letters()] == [note("a")]


@pytest.mark.parametrize(
    ("failure", "times", "said"),
    [
        pytest.param(support.REFUSED_ENTRY, 1, "InvalidParameter too odd", id="refused"),
        pytest.param(support.THROTTLED_ENTRY, ATTEMPTS, "Throttled", id="throttled each time"),
        pytest.param(support.THROTTLED_ENTRY, 1, None, id="throttled once"),
    ],
)
def test_entry_that_is_not_accepted_stays_and_is_reported(
    shop: Shop, failure: dict[str, Any], times: int, said: str | None
) -> None:
    shop.fail("a")
    message = shop.only_dead_letter()
    support.fail_entries("sqs.SendMessageBatch", failure, times=times)
    result = support.run(*REDRIVE)
    assert result.exit_code == (1 if said else 0)
    assert support.numbers(result.stdout)["failed"] == ("1" if said else "0")
    assert shop.hidden() == 0
    assert len(shop.waiting()) == (0 if said else 1)
    if said:
        assert f"{message.message_id}: not sent: {said}" in result.stderr
        assert shop.only_dead_letter().message_id == message.message_id


def test_a_message_that_was_not_deleted_is_told_and_is_a_duplicate_next_time(shop: Shop) -> None:
    shop.fail("a")
    support.fail_entries("sqs.DeleteMessageBatch", support.REFUSED_ENTRY)
    assert "sent, but not deleted" in support.stderr_of(*REDRIVE)
    shop.work_off()
    support.stdout_of(*REDRIVE)
    shop.work_off()
    assert shop.counted() == {"a": 1}
    assert shop.dead_letters() == []


@pytest.mark.parametrize(
    ("operation", "said", "sent"),
    [
        ("sqs.SendMessageBatch", "perhaps sent", 0),
        ("sqs.DeleteMessageBatch", "sent, and perhaps not deleted", 2),
    ],
)
def test_interrupted_redrive_says_what_is_certain(
    shop: Shop, operation: str, said: str, sent: int
) -> None:
    def interrupt(params: Any) -> None:
        raise KeyboardInterrupt

    shop.fail("a", "b")
    ids = [message.message_id for message in shop.dead_letters()]
    support.answer_with(operation, interrupt)
    result = support.run(*REDRIVE)
    assert result.exit_code == 130
    text = support.words(result.stderr)
    assert f"stopped: {sent} certainly sent back; in doubt: 2; all others" in text
    assert all(f"{one}: {said}" in text for one in ids)
    assert support.numbers(result.stdout)["sent back"] == str(sent)
    assert shop.hidden() == 0
    assert len(shop.dead_letters()) == 2
    outcome = shop.cloud.logged()[-1]
    assert (outcome["outcome"], outcome["counts"]["in_doubt"]) == ("stopped", 2)


def test_rate_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    limiter = RateLimiter(2)
    for _ in range(4):
        limiter.wait(limiter.max_per_call)
        now[0] += 0.25
    assert slept == [0.75] * 3
    assert [RateLimiter(rate).max_per_call for rate in (0.1, 3, 10, 500)] == [1, 3, 10, 10]


# Messages with a group: fair ones, and those of FIFO queues in their order.


SEND_BACK = ("dlq", "redrive", "--yes", "--rate", 1000)


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
    stdout_of(*SEND_BACK)
    assert [each["Attributes"]["MessageGroupId"] for each in shop.waiting()] == ["tenant-1"]


def test_each_message_of_a_fifo_queue_is_sent_in_a_call_of_its_own(fifo: Shop) -> None:
    # Within one call, later messages would overtake a throttled one.
    asked = requests_of("sqs.SendMessageBatch")
    fifo.fail_in_groups("g-a", "g-b")
    stdout_of(*SEND_BACK)
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
            patch.setattr(redrive_module, "redriven_message", fail_second)
        first, *others = json.loads(run(*SEND_BACK, "--json").stdout)["failed"]
    assert fifo.arrived() == ["a-1", "b-1"]
    assert WAITS not in first
    assert [said.split(": ", 1)[1] for said in others] == [WAITS]


def test_message_that_is_sent_twice_is_deduplicated_by_sqs(
    fifo: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo.fail_in_groups("g-a")
    with monkeypatch.context() as patch:
        patch.setattr(QueueWalk, "delete", lambda walk, found: {found[0].message_id: "killed"})
        run(*SEND_BACK)
    fifo.show_hidden()
    run(*SEND_BACK)
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

    sent = run(*SEND_BACK, "--json")
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
    stdout_of(*SEND_BACK)
    assert fifo.arrived() == ["a-0", "a-1", "a-2", "a-3"]


def test_named_messages_are_sent_in_the_order_of_their_group(fifo: Shop) -> None:
    fifo.fail_in_groups("a-0", "a-1", "a-2")
    names = [message.message_id for message in fifo.dead_letters()]
    stdout_of(*SEND_BACK, *reversed(names))
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
    sent = run(*SEND_BACK, "--reason", "retries-exhausted", "--limit", 5)
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
    sent = stdout_of(*SEND_BACK, "--reason", "died", "--json")
    assert json.loads(sent)["sent"] == 13
    assert [name for name in moved.arrived() if name != "b-0"] == GROUP
