"""A walk through dead letters: all are shown once, and all are there afterwards."""

import pytest

from once.ops.aws.clients import client
from once.ops.aws.queue_depth import depth
from once.ops.dead_letters import queue_walk as walk
from once.ops.dead_letters.letter import DeadLetterQueue, Letter
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dlq._selection import open_walk
from tests.ops.letters import Shop
from tests.ops.support import OK, Cloud, answer_with, refusal

MANY = 23


@pytest.fixture
def full(shop: Shop) -> Shop:
    for number in range(MANY):
        shop.sqs.send_message(QueueUrl=shop.box.url, MessageBody=f"{number}")
    return shop


def bodies(letters: list[Letter]) -> list[str]:
    return sorted(letter.original.body for letter in letters)


def all_of(found: QueueWalk) -> list[Letter]:
    return [letter for page in found.pages() for letter in page]


def test_every_letter_is_shown_once_and_visible_afterwards(full: Shop) -> None:
    with QueueWalk(full.sqs, [full.box], limit=1000) as found:
        letters = all_of(found)
        assert full.hidden() == found.hidden == MANY
    assert bodies(letters) == sorted(map(str, range(MANY)))
    assert found.looked_at == MANY
    assert (full.hidden(), found.hidden) == (0, 0)
    assert depth(full.sqs, full.box.url).visible == MANY


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_letters_are_given_back_however_the_walk_ends(
    full: Shop, error: type[BaseException]
) -> None:
    def broken_off() -> None:
        with QueueWalk(full.sqs, [full.box], limit=1000) as found:
            next(found.pages())
            raise error

    with pytest.raises(error):
        broken_off()
    assert full.hidden() == 0


def test_a_letter_that_shows_again_in_a_long_walk_counts_once(full: Shop) -> None:
    with QueueWalk(full.sqs, [full.box], limit=1000) as found:
        pages = found.pages()
        first = next(pages)
        full.show_hidden()
        letters = [*first, *(letter for page in pages for letter in page)]
    assert bodies(letters) == sorted(map(str, range(MANY)))
    assert full.hidden() == 0


@pytest.mark.parametrize("limit", [1, 10, 15])
def test_no_more_than_the_limit_are_looked_at(full: Shop, limit: int) -> None:
    with QueueWalk(full.sqs, [full.box], limit) as found:
        assert len(all_of(found)) == found.looked_at == limit
        assert full.hidden() == limit


def test_one_queue_after_the_other_is_gone_through(full: Shop, cloud: Cloud) -> None:
    other = DeadLetterQueue(
        "inventory", cloud.outputs["once-service"]["DeadLettersInventory"], "queue"
    )
    full.sqs.send_message(QueueUrl=other.url, MessageBody="other")
    with QueueWalk(full.sqs, [full.box, other], limit=1000) as found:
        letters = all_of(found)
    assert [letter.queue for letter in letters] == [full.box] * MANY + [other]
    assert depth(full.sqs, other.url).in_flight == full.hidden() == 0


def test_what_was_taken_is_not_given_back(full: Shop) -> None:
    asked: list[str] = []
    answer_with("sqs.ChangeMessageVisibilityBatch", lambda params: asked.append(params["body"]))
    with QueueWalk(client("sqs"), [full.box], limit=10) as found:
        found.forget(all_of(found)[1:])
    assert len(asked) == 1
    assert full.hidden() == 9


def test_a_letter_is_held_for_as_long_as_the_walk_takes(full: Shop) -> None:
    asked: list[str] = []
    answer_with("sqs.ReceiveMessage", lambda params: asked.append(params["body"]))
    with QueueWalk(client("sqs"), [full.box], limit=1) as found:
        all_of(found)
    assert f'"VisibilityTimeout": {walk.HOLD_SECONDS}' in str(asked[0])
    assert walk.HOLD_SECONDS >= 600


@pytest.mark.parametrize(
    "answer",
    [
        refusal("AccessDenied", "no"),
        (OK, {"Failed": [{"Id": "0", "Code": "X"}, {"Id": "1", "Code": "X"}]}),
    ],
    ids=["a refusal", "a failed entry"],
)
def test_letters_that_could_not_be_given_back_are_told(
    full: Shop, capsys: pytest.CaptureFixture[str], answer: object
) -> None:
    answer_with("sqs.ChangeMessageVisibilityBatch", lambda params: answer)
    with open_walk(client("sqs"), [full.box], limit=2) as found:
        all_of(found)
    assert "2 dead letters could not be given back" in capsys.readouterr().err
    assert full.hidden() == 2


def test_a_queue_that_cannot_be_read_says_so_and_gives_back_what_was_seen(full: Shop) -> None:
    def read() -> None:
        with QueueWalk(
            full.sqs, [full.box, DeadLetterQueue("gone", f"{full.box.url}-gone", None)], limit=99
        ) as it:
            all_of(it)

    with pytest.raises(full.sqs.exceptions.QueueDoesNotExist):
        read()
    assert full.hidden() == 0
