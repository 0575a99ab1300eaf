"""FIFO queues and topics of the world: order of a group, one receive at a time, five minutes."""

from typing import Any

import pytest

from proof.world.calls import ServiceError
from proof.world.queues import FifoQueue, Queues, Topics

URL, TOPIC = "https://queue.fifo", "topic.fifo"


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.queue = FifoQueue("q.fifo", visibility=30)
        self.queues = Queues(lambda: self.now, {URL: self.queue})
        self.topics = Topics(self.queues, {TOPIC: {"t": [self.queue]}}, lambda: self.now)

    def send(self, body: str, group: str, name: str = "") -> Any:
        grouping = {"MessageGroupId": group, "MessageDeduplicationId": name or body}
        request = {"QueueUrl": URL, "MessageBody": body, **grouping}
        return self.queues.answer("SendMessage", request)

    def receive(self, count: int = 10) -> list[str]:
        return [message.body for message in self.queue.receive(count, self.now)]


@pytest.fixture
def world() -> World:
    return World()


def test_a_group_is_received_in_order_and_not_while_one_of_it_is_in_flight(world: World) -> None:
    for body, group in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")):
        world.send(body, group)
    assert world.receive(1) == ["a1"]
    assert world.receive() == ["b1"]
    world.now = 30
    assert world.receive() == ["a1", "a2", "b1", "a3"]
    world.queue.delete(world.queue.messages["m2"].handles[-1])
    assert world.receive() == []


def test_a_known_deduplication_id_is_dropped_for_five_minutes(world: World) -> None:
    ids = [world.send("body", "a", "x")["MessageId"] for world.now in (0, 299, 300)]
    assert ids == ["m1", "m1", "m2"]


def test_a_topic_drops_a_known_id_as_well_and_passes_both_on(world: World) -> None:
    order = {"MessageGroupId": "a", "MessageDeduplicationId": "x"}
    for world.now in (0, 299, 301):
        world.topics.publish(TOPIC, "t", "body", order)
    assert [message.group for message in world.queue.ever] == ["a", "a"]


@pytest.mark.parametrize("left_out", ["MessageGroupId", "MessageDeduplicationId"])
def test_a_message_without_its_grouping_is_refused(world: World, left_out: str) -> None:
    order = {"MessageGroupId": "a", "MessageDeduplicationId": "x"}
    del order[left_out]
    with pytest.raises(ServiceError, match="MissingParameter"):
        world.topics.publish(TOPIC, "t", "body", order)
