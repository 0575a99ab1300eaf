"""`dlq redrive`: dead letters go back as they were, with their history, and nothing is lost."""

import json
from collections.abc import Iterator

import pytest

from once.handlers.effect_declaration import Policy
from once.schema import RELAY, DeadLetter, Limits
from tests.ops.letters import Shop, note
from tests.ops.support import Cloud, answer_with, run

QUICK = ("--rate", "1000")


def redrive(*options: object) -> str:
    result = run("dlq", "redrive", *QUICK, *options)
    assert result.exit_code == 0, result.output
    return result.stdout


def numbers(output: str) -> dict[str, str]:
    """The summary's rows."""
    cells = [line.strip("│").split("│") for line in output.splitlines() if line.startswith("│")]
    return {name.strip(): number.strip() for name, number in cells}


def test_letters_go_back_and_are_worked_on_once(shop: Shop) -> None:
    names = [f"n-{number}" for number in range(23)]
    shop.give_up(*map(note, names), error=ValueError())
    output = redrive()
    assert numbers(output) == {
        "sent back": "23",
        "of these, will come back unless mended": "0",
        "skipped, as not safe": "0",
        "failed": "0",
    }
    assert "looked at 23 of about 23" in output
    assert shop.letters() == []
    shop.work_off()
    assert shop.counted() == dict.fromkeys(names, 1)


def test_the_consumer_reads_what_the_producer_sent(shop: Shop) -> None:
    shop.send(note("a"), tenant="é{}", traceparent="00-1")
    shop.outside.faults["a"] = ValueError()
    shop.work_off(receive_count=5)
    redrive()
    [message] = shop.waiting()
    assert json.loads(message["Body"]) == note("a")
    kept = json.loads(message["MessageAttributes"][DeadLetter.ATTRIBUTES]["StringValue"])
    assert {name: value["stringValue"] for name, value in kept.items()} == {
        "tenant": "é{}",
        "traceparent": "00-1",
    }


def test_no_attribute_speaks_of_its_next_death(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    redrive()
    [message] = shop.waiting()
    assert set(message["MessageAttributes"]) == {
        DeadLetter.LINEAGE,
        DeadLetter.FIRST_SEEN,
        DeadLetter.KEY_HASH,
    }


@pytest.mark.parametrize("number", [0, 10])
def test_a_message_that_sqs_moved_goes_back_with_all_of_its_attributes(
    shop: Shop, number: int
) -> None:
    shop.send(note("a"), **{f"a{n}": "x" for n in range(number)})
    [message] = shop.waiting()
    shop.died_at(message)
    redrive()
    [message] = shop.waiting()
    assert len(message["MessageAttributes"]) <= 10
    kept = message["MessageAttributes"].get(DeadLetter.ATTRIBUTES, {"StringValue": "{}"})
    assert len(json.loads(kept["StringValue"])) == number


def test_what_fails_again_shows_where_it_has_been(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    first = shop.letter()
    for error in (KeyError(), TypeError()):
        redrive()
        shop.outside.faults["a"] = error
        shop.work_off(receive_count=5)
    last = shop.letter()
    assert [stay.reason for stay in last.lineage] == ["retries-exhausted"] * 2 + [None]
    assert [stay.edited for stay in last.lineage] == [False] * 3
    assert last.lineage[0].message_id == first.lineage[0].message_id
    assert last.first_seen == first.first_seen
    assert last.sent_at > first.sent_at
    shown = " ".join(run("dlq", "show", last.message_id).stdout.split())
    assert f"{first.lineage[0].message_id}: retries-exhausted, sent back at 20" in shown


def test_a_message_at_which_the_function_died_again_shows_where_it_has_been(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    before = shop.letter()
    for _ in range(2):
        redrive()
        [message] = shop.waiting()
        shop.died_at(message)
    last = shop.letter()
    assert last.reason is None
    assert [stay.reason for stay in last.lineage] == ["retries-exhausted", "died", None]
    assert last.first_seen == before.first_seen
    assert last.key_hash == before.key_hash


@pytest.mark.parametrize(("spare", "stays"), [(0, 1), (2000, 2)])
def test_a_large_message_goes_back_as_it_was_sent_with_its_history_if_that_fits(
    shop: Shop, spare: int, stays: int
) -> None:
    body = "x" * (Limits.MESSAGE_BYTES - spare)
    shop.give_up(body)
    redrive()
    [message] = shop.waiting()
    assert message["Body"] == body
    assert DeadLetter.ORIGINAL_GZIP not in message.get("MessageAttributes", {})
    shop.died_at(message)
    letter = shop.letter()
    assert letter.original.body == body
    assert len(letter.lineage) == stays


def test_a_call_holds_no_more_than_sqs_takes(shop: Shop) -> None:
    large = note("a") | {"data": {"name": "a", "sent": "x" * 240_000}}
    shop.give_up(*[large] * 12, error=ValueError())
    sizes: list[int] = []
    answer_with("sqs.SendMessageBatch", lambda params: sizes.append(len(params["body"])))
    redrive()
    assert max(sizes) < Limits.MESSAGE_BYTES
    assert len(sizes) == 4
    assert shop.letters() == []


def test_filters_choose(shop: Shop) -> None:
    shop.give_up(note("a"), note("b"), error=ValueError())
    shop.give_up("{")
    redrive("--reason", "retries-exhausted", "--key", "id-a")
    assert [json.loads(message["Body"]) for message in shop.waiting()] == [note("a")]
    assert len(shop.letters()) == 2
    redrive("--reason", "unparseable")
    assert [message["Body"] for message in shop.waiting()] == ["{"]


def test_named_letters_go_back_and_others_stay(shop: Shop) -> None:
    shop.give_up(*(note(f"n-{n}") for n in range(12)), error=ValueError())
    chosen = shop.letters()[:11]
    shop.show_hidden()
    redrive(chosen[0].message_id, *(letter.message_id[:13] for letter in chosen[1:]))
    assert len(shop.letters()) == 1
    assert len(shop.waiting()) == 11


def test_a_dry_run_tells_and_sends_nothing(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    shop.give_up("{")
    ids = [letter.message_id for letter in shop.letters()]
    output = redrive("--dry-run")
    assert all(one in output for one in ids)
    assert "no record of it was found" in " ".join(output.replace("│", " ").split())
    assert "would be sent: 2; not safe to send: 0" in output
    assert shop.waiting() == []
    assert shop.hidden() == 0
    assert len(shop.letters()) == 2


@pytest.fixture
def doubtful(cloud: Cloud) -> Iterator[Shop]:
    """One that is not safe to send, and one that is."""
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        shop.outside.answers = [TimeoutError()]
        shop.give_up(note("a"))
        shop.give_up("{")
        yield shop


def test_what_is_not_safe_stays_and_is_told(doubtful: Shop) -> None:
    unsafe = doubtful.letters()[0].message_id
    result = run("dlq", "redrive", *QUICK)
    assert result.exit_code == 1
    assert numbers(result.stdout)["skipped, as not safe"] == "1"
    assert f"{unsafe}: NOT SAFE: the effect 'charge' may have been done" in result.stderr
    assert "--unsafe" in result.stderr
    assert [letter.message_id for letter in doubtful.letters()] == [unsafe]
    assert [message["Body"] for message in doubtful.waiting()] == ["{"]


def test_what_is_not_safe_goes_by_name_alone(doubtful: Shop) -> None:
    unsafe = doubtful.letters()[0].message_id
    assert run("dlq", "redrive", unsafe).exit_code == 1
    assert len(doubtful.letters()) == 2
    redrive(unsafe, "--unsafe")
    assert unsafe not in [letter.message_id for letter in doubtful.letters()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--unsafe",), "is for dead letters that are named"),
        (("--edit",), "changes one dead letter: name it"),
        (("--edit", "a", "b"), "changes one dead letter: name it"),
        (("a", "--reason", "died"), "leave the filters or the ids out"),
        (("--rate", "0"), "greater than or equal to 0.1"),
    ],
)
def test_what_does_not_go_together_is_refused(
    cloud: Cloud, options: tuple[str, ...], said: str
) -> None:
    result = run("dlq", "redrive", *options)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_the_relay_has_no_queue_to_send_to(cloud: Cloud) -> None:
    result = run("dlq", "redrive", "--consumer", RELAY)
    assert result.exit_code == 1
    assert "outbox republish" in result.stderr


def test_what_the_relay_gave_up_stays_where_it_is(shop: Shop) -> None:
    url = shop.cloud.outputs["once-service"]["RelayDeadLetters"]
    shop.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(note("a")))
    assert numbers(redrive())["sent back"] == "0"
    answer = shop.sqs.receive_message(QueueUrl=url)
    assert len(answer["Messages"]) == 1


def test_letters_that_are_here_again_are_not_sent_for_ever(shop: Shop) -> None:
    shop.give_up(*["{"] * 12)
    answer_with("sqs.DeleteMessageBatch", lambda params: shop.work_off())
    output = redrive("--limit", 100)
    assert numbers(output) == {
        "sent back": "12",
        "of these, will come back unless mended": "12",
        "skipped, as not safe": "0",
        "failed": "0",
        "sent back, and here again": "12",
    }
    assert len(shop.letters()) == 12
