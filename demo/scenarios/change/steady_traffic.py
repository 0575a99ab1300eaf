"""Steady traffic: orders at an even pace, with late duplicates, until the context ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import Event, Thread
from typing import Any

from demo.traffic.sample_order import EVENT_TYPE, SampleOrder
from demo.traffic.traffic_plan import TrafficPlan

_PERIOD_SECONDS = 0.25
_ORDERS_PER_DUPLICATE = 2


@dataclass
class SteadyTraffic:
    """The messages that the topic has accepted until now.

    Attributes:
        plan: the orders to send; the traffic ends with them.
        sent: orders that were sent, in their order.
        resent: orders that were sent once more, at any time after the first.
    """

    plan: TrafficPlan
    sent: list[SampleOrder] = field(default_factory=list)
    resent: list[SampleOrder] = field(default_factory=list)
    failure: Exception | None = None
    over: Event = field(default_factory=Event)

    def run(self, sns: Any, topic_arn: str) -> None:
        """Send until `over` is set, and keep an error in `failure`."""
        try:
            self._send(sns, topic_arn)
        except Exception as error:  # raised again by the thread that waits for this one
            self.failure = error

    def _send(self, sns: Any, topic_arn: str) -> None:
        random = Random(self.plan.seed)
        for order in random.sample(self.plan.orders, len(self.plan.orders)):
            if self.over.wait(_PERIOD_SECONDS):
                return
            _publish(sns, topic_arn, order)
            self.sent.append(order)
            if len(self.sent) % _ORDERS_PER_DUPLICATE == 0:
                again = random.choice(self.sent)
                _publish(sns, topic_arn, again)
                self.resent.append(again)

    def sent_plan(self) -> TrafficPlan:
        """Return the part of the plan that was sent."""
        return TrafficPlan(
            seed=self.plan.seed,
            orders=self.sent,
            at_once=(),
            parallel=(),
            late=self.resent,
            conflicts=(),
            malformed=(),
        )


@contextmanager
def steady_traffic(sns: Any, topic_arn: str, plan: TrafficPlan) -> Iterator[SteadyTraffic]:
    """Publish the orders of a plan until the context ends.

    Args:
        sns: boto3 client.
        topic_arn: the ingress topic.
        plan: the orders; their duplicates are chosen here.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: an order could not be sent.
    """
    traffic = SteadyTraffic(plan)
    thread = Thread(target=traffic.run, args=(sns, topic_arn), name="traffic", daemon=True)
    thread.start()
    try:
        yield traffic
    finally:
        traffic.over.set()
        thread.join()
    if traffic.failure is not None:
        raise traffic.failure


def _publish(sns: Any, topic_arn: str, order: SampleOrder) -> None:
    attribute = {"type": {"DataType": "String", "StringValue": EVENT_TYPE}}
    sns.publish(TopicArn=topic_arn, Message=order.body, MessageAttributes=attribute)
