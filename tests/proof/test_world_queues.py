"""The SQS of the world: at least once, and nothing that a stale handle says."""

from typing import Any

import pytest

from proof.world.errors import ServiceError
from proof.world.queues import Queue, Queues

URL = "https://queue"


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def queue() -> Queue:
    return Queue("q", visibility=30, most=2, dead_letters=Queue("dead"))


@pytest.fixture
def queues(time: Time, queue: Queue) -> Queues:
    queues = Queues(time, {URL: queue})
    queues.answer("SendMessage", {"QueueUrl": URL, "MessageBody": "body"})
    return queues


def test_a_message_is_hidden_until_its_visibility_ends(queue: Queue, queues: Queues) -> None:
    assert [message.body for message in queue.receive(10, now=0)] == ["body"]
    assert queue.receive(10, now=29) == []
    [again] = queue.receive(10, now=30)
    assert (again.receives, again.first_received_at) == (2, 0)


def test_the_receive_after_the_last_one_moves_it_to_the_dead_letters(
    queue: Queue, queues: Queues
) -> None:
    queue.receive(1, now=0)
    queue.receive(1, now=30)
    assert queue.receive(1, now=60) == []
    assert queue.waiting == []
    assert queue.dead_letters is not None
    assert [message.body for message in queue.dead_letters.waiting] == ["body"]


def test_a_stale_handle_deletes_nothing_and_is_told_success(queue: Queue, queues: Queues) -> None:
    [message] = queue.receive(1, now=0)
    stale = message.handles[-1]
    queue.receive(1, now=30)
    queue.delete(stale)
    assert queue.waiting == [message]
    queue.delete(message.handles[-1])
    assert queue.waiting == []


def test_visibility_can_be_changed_while_the_message_is_in_flight_and_not_after(
    time: Time, queue: Queue, queues: Queues
) -> None:
    [message] = queue.receive(1, now=0)
    request: dict[str, Any] = {"QueueUrl": URL, "ReceiptHandle": message.handles[-1]}
    queues.answer("ChangeMessageVisibility", {**request, "VisibilityTimeout": 5})
    assert message.visible_at == 5
    time.now = 6
    with pytest.raises(ServiceError, match="MessageNotInflight"):
        queues.answer("ChangeMessageVisibility", {**request, "VisibilityTimeout": 5})


def test_a_handle_of_nothing_is_refused(queues: Queues) -> None:
    with pytest.raises(ServiceError, match="ReceiptHandleIsInvalid"):
        queues.answer("ChangeMessageVisibility", {"QueueUrl": URL, "ReceiptHandle": "x.1"})
