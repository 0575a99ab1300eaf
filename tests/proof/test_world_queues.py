"""The SQS of the world: at-least-once delivery, visibility timeouts and stale handles."""

from typing import Any

import pytest

from proof.world.calls import ServiceError
from proof.world.queues import Queue, Queues

URL = "https://queue"


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.dead = Queue("dead")
        self.queue = Queue("q", visibility=30, most=2, dead_letters=self.dead)
        self.queues = Queues(lambda: self.now, {URL: self.queue})
        self.call("SendMessage", MessageBody="body")

    def call(self, operation: str, **request: Any) -> Any:
        return self.queues.answer(operation, {"QueueUrl": URL, **request})


@pytest.fixture
def world() -> World:
    return World()


def test_a_message_is_hidden_until_its_visibility_timeout_ends(world: World) -> None:
    assert [message.body for message in world.queue.receive(10, now=0)] == ["body"]
    assert world.queue.receive(10, now=29) == []
    assert not world.queue.has_visible(29)
    [again] = world.queue.receive(10, now=30)
    assert (again.receives, again.first_received_at) == (2, 0)


def test_the_receive_after_the_last_one_moves_a_message_to_the_dead_letters(world: World) -> None:
    assert [len(world.queue.receive(1, now)) for now in (0, 30, 60)] == [1, 1, 0]
    assert world.queue.waiting == []
    assert [message.body for message in world.dead.waiting] == ["body"]


def test_a_stale_handle_deletes_nothing_and_is_no_error(world: World) -> None:
    [message] = world.queue.receive(1, now=0)
    world.queue.receive(1, now=30)
    stale, newest = message.handles
    world.queue.delete(stale)
    assert world.queue.waiting == [message]
    world.queue.delete(newest)
    assert world.queue.waiting == []


def test_visibility_can_only_be_changed_while_a_message_is_in_flight(world: World) -> None:
    [message] = world.queue.receive(1, now=0)
    request: dict[str, Any] = {"ReceiptHandle": message.handles[-1], "VisibilityTimeout": 5}
    world.call("ChangeMessageVisibility", **request)
    assert message.visible_at == 5
    world.now = 6
    with pytest.raises(ServiceError, match="MessageNotInflight"):
        world.call("ChangeMessageVisibility", **request)


def test_an_unknown_handle_is_rejected(world: World) -> None:
    with pytest.raises(ServiceError, match="ReceiptHandleIsInvalid"):
        world.call("ChangeMessageVisibility", ReceiptHandle="x.1", VisibilityTimeout=5)
