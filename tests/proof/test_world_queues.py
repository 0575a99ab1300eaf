"""SQS and SNS of the world: at-least-once delivery and stale handles; order and deduplication."""

from typing import Any

import pytest

from proof.world.calls import ServiceError
from proof.world.queues import Queue, Queues, Topics

URL, TOPIC = "https://queue", "topic.fifo"


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


class Ordered:
    def __init__(self) -> None:
        self.now = 0.0
        self.queue = Queue("q.fifo", visibility=30)
        self.queues = Queues(lambda: self.now, {URL: self.queue})
        self.topics = Topics(self.queues, {TOPIC: {"t": [self.queue]}}, lambda: self.now)

    def send(self, body: str, group: str, name: str = "") -> Any:
        grouping = {"MessageGroupId": group, "MessageDeduplicationId": name or body}
        request = {"QueueUrl": URL, "MessageBody": body, **grouping}
        return self.queues.answer("SendMessage", request)

    def receive(self, count: int = 10) -> list[str]:
        return [message.body for message in self.queue.receive(count, self.now)]


@pytest.fixture
def ordered() -> Ordered:
    return Ordered()


def test_a_group_is_received_in_order_and_not_while_one_of_it_is_in_flight(
    ordered: Ordered,
) -> None:
    for body, group in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")):
        ordered.send(body, group)
    assert ordered.receive(1) == ["a1"]
    assert ordered.receive() == ["b1"]
    ordered.now = 30
    assert ordered.receive() == ["a1", "a2", "b1", "a3"]
    ordered.queue.delete(ordered.queue.messages["m2"].handles[-1])
    assert ordered.receive() == []


def test_a_known_deduplication_id_is_dropped_for_five_minutes(ordered: Ordered) -> None:
    ids = [ordered.send("body", "a", "x")["MessageId"] for ordered.now in (0, 299, 300)]
    assert ids == ["m1", "m1", "m2"]


def test_a_topic_drops_a_known_id_as_well_and_passes_both_on(ordered: Ordered) -> None:
    order = {"MessageGroupId": "a", "MessageDeduplicationId": "x"}
    for ordered.now in (0, 299, 301):
        ordered.topics.publish(TOPIC, "t", "body", order)
    assert [message.group for message in ordered.queue.ever] == ["a", "a"]
