"""The traces of a saga in a deployment, written by the library's own functions."""

import json
import time
from datetime import timedelta
from typing import Any

import msgspec

from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import Key, fingerprint, key_hash
from once.events.outgoing import draft, written
from once.names import CAUSE_EXTENSION, RELAY, Outcome, Reason, Record, State
from tests.ops.cloud import Cloud
from tests.ops.shop import DAY
from tests.ops.support import stdout_of

TABLE = "physical-dedup"
ORDER_ID = Key.field("order_id")
CONSUMERS = ("orders", "inventory", "payments", "notifications")
ORDER_KEY = ["field", "order_id"]
TYPES: dict[str, dict[str, Any]] = {
    "orders": {"external": ["order.placed"], "events": ["payment.captured"]},
    "inventory": {"external": ["order.placed"], "events": ["payment.captured"]},
    "payments": {"events": ["stock.reserved"], "keys": {"stock.reserved": ORDER_KEY}},
    "notifications": {"events": ["payment.captured"], "keys": {"payment.captured": ORDER_KEY}},
}
"""The event types of each consumer, and the key rules that are not the default."""

SHOP = ("--source", "/shop")
"""The option that an event's id needs."""
WAY = [
    ("orders", "order.placed"),
    ("inventory", "order.placed"),
    ("payments", "stock.reserved"),
    ("inventory", "payment.captured"),
    ("orders", "payment.captured"),
    ("notifications", "payment.captured"),
]
"""The consumers and event types of an order, in the order of time."""


def placed(order: str, **attributes: Any) -> CloudEvent:
    """The first event of an order."""
    head = {"id": f"placed-{order}", "source": "/shop", "type": "order.placed", "subject": order}
    data = {"order_id": order, "lines": [{"sku": "s-1", "quantity": 1}]}
    return CloudEvent(**({**head, "data": data} | attributes))


def body(event: CloudEvent, **members: Any) -> str:
    """An event as its producer sends it, except for these members."""
    names = ("id", "source", "type", "data", "subject")
    envelope = {name: getattr(event, name) for name in names}
    return json.dumps({"specversion": "1.0", **envelope, **members})


def moments(*arguments: object) -> list[dict[str, Any]]:
    """The entries of a trace, as JSON."""
    return list(json.loads(stdout_of("trace", *arguments, "--json"))["moments"])


def actions(*arguments: object) -> list[tuple[str, str]]:
    """The consumer and the action of each entry of a trace."""
    return [(moment["consumer"], moment["what"]) for moment in moments(*arguments)]


class Saga:
    """Records, dead letters and logs of four consumers; each record a second after the last."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.now = time.time() - 3600
        for name in ("payments", "notifications"):
            cloud.deploy(name)
        for name, types in TYPES.items():
            cloud.set_types(name, **types)
        for name in (*CONSUMERS, RELAY):
            cloud.log(name)

    def commit(
        self,
        consumer: str,
        event: CloudEvent,
        *publishes: str,
        key: Key | None = None,
        after: timedelta | None = None,
        **attributes: Any,
    ) -> list[CloudEvent]:
        """Write a record, and return the events that it publishes, at once or `after` a time."""
        self.now += 1
        pk = self.pk(consumer, event, key)
        order = event.data["order_id"]
        drafts = [draft(one, {"order_id": order, "amount": 700}, order) for one in publishes]
        drafts = [msgspec.structs.replace(each, wait=after) for each in drafts]
        outbox = written(drafts, inbound=event, pk=pk, consumer=consumer, now=self.now)
        item: dict[str, Any] = {
            Record.STATE: {"S": State.DONE},
            Record.EVENT_TYPE: {"S": event.type},
            Record.OUTCOME: {"S": Outcome.ACCEPTED},
            Record.FINGERPRINT: {"S": fingerprint(event)},
            **({Record.OUTBOX: {"S": outbox}} if publishes else {}),
            **(
                {Record.CAUSE: {"S": cause}}
                if (cause := event.extensions.get(CAUSE_EXTENSION))
                else {}
            ),
        }
        self.cloud.put_record(pk, self.now, self.now + 45 * DAY, **(item | attributes))
        return [read_event(json.dumps(one), max_bytes=10**6) for one in json.loads(outbox)]

    def pk(self, consumer: str, event: CloudEvent, key: Key | None = None) -> str:
        rule = key or Key.event()
        return rule.of(event, fingerprint=fingerprint(event), consumer=consumer)

    def hash(self, consumer: str, event: CloudEvent, key: Key | None = None) -> str:
        return key_hash(self.pk(consumer, event, key))

    def order(self, name: str) -> CloudEvent:
        """Write the records of an order (see `WAY`); return its first event."""
        event = placed(name)
        self.commit("orders", event)
        [reserved] = self.commit("inventory", event, "stock.reserved")
        [captured] = self.commit("payments", reserved, "payment.captured", key=ORDER_ID)
        self.commit("inventory", captured)
        self.commit("orders", captured)
        self.commit("notifications", captured, key=ORDER_ID)
        return event

    def bury(
        self,
        consumer: str,
        message: CloudEvent | str,
        reason: str = Reason.INVALID_DATA,
        **values: str,
    ) -> None:
        """Put a message into a dead-letter queue."""
        text = message if isinstance(message, str) else body(message)
        self.cloud.bury(consumer, text, reason=reason, **values)

    def log(self, consumer: str, message: str, **fields: Any) -> None:
        """Write a line into a function's log, as Powertools does."""
        line = json.dumps({"level": "INFO", "message": message, **fields})
        self.cloud.log(consumer, line)
