"""What a deployed saga leaves behind, written by the library's own functions."""

import json
import time
from collections.abc import Sequence
from typing import Any

import boto3
import pytest

from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import Key, key_hash
from once.events.fingerprint import fingerprint
from once.events.outgoing import draft, written
from once.failures.quarantine import text
from once.ops.dead_letters import queue_walk as walk
from once.ops.trace import _timeline as timeline
from once.schema import DeadLetter, Reason
from tests.ops.support import Cloud, answer_with, refusal, run

TABLE = "physical-dedup"
DAY = 86400


def placed(order: str, **attributes: Any) -> CloudEvent:
    """The event that begins an order's story."""
    head = {"id": f"placed-{order}", "source": "/shop", "type": "order.placed", "subject": order}
    data = {"order_id": order, "lines": [{"sku": "s-1", "quantity": 1}]}
    return CloudEvent(**({**head, "data": data} | attributes))


def body(event: CloudEvent) -> str:
    """An event as its producer sends it."""
    envelope = {"id": event.id, "source": event.source, "type": event.type, "data": event.data}
    return json.dumps({"specversion": "1.0", **envelope, "subject": event.subject})


def moments(*arguments: object) -> list[dict[str, Any]]:
    """What `trace` tells, as JSON."""
    result = run("trace", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout)["moments"])


def told(*arguments: object) -> list[tuple[str, str]]:
    """Who did what, as `trace` tells it."""
    return [(moment["consumer"], moment["what"]) for moment in moments(*arguments)]


def words(output: str) -> str:
    """The output without the lines of its table."""
    return " ".join("".join(" " if c in "│┃━─┌└├" else c for c in output).split())


def refuse_all(operation: str) -> None:
    answer_with(operation, lambda params: refusal("AccessDeniedException", "not for you"))


class Saga:
    """Four consumers' records, dead letters and logs; each record a second after the last."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(walk, "WAIT_SECONDS", 0)
        monkeypatch.setattr(timeline, "THREADS", 1)  # AWS in memory is for one thread only
        self.cloud = cloud
        self.logs = boto3.client("logs")
        self.now = time.time() - 3600
        service = cloud.outputs["once-service"]
        for name in ("payments", "notifications"):
            service |= cloud._consumer(name)
        for name in ("orders", "inventory", "payments", "notifications", "outbox_relay"):
            group = f"/aws/lambda/once-{name}"
            self.logs.create_log_group(logGroupName=group)
            self.logs.create_log_stream(logGroupName=group, logStreamName="s")

    def commit(
        self,
        consumer: str,
        event: CloudEvent,
        *publishes: str,
        key: Key | None = None,
        **attributes: Any,
    ) -> list[CloudEvent]:
        """Write a record, and return the events that it publishes."""
        self.now += 1
        pk = self.pk(consumer, event, key)
        item: dict[str, Any] = {
            "pk": {"S": pk},
            "state": {"S": "done"},
            "event_type": {"S": event.type},
            "outcome": {"S": "accepted"},
            "fingerprint": {"S": fingerprint(event)},
            "commit": {"S": "c"},
            "committed_at": {"N": str(int(self.now * 1000))},
            "expires_at": {"N": str(int(self.now + 45 * DAY))},
        }
        outbox = self._outbox(pk, consumer, event, publishes)
        if publishes:
            item["outbox"] = {"S": outbox}
        self.cloud.dynamodb.put_item(TableName=TABLE, Item=item | attributes)
        return [read_event(json.dumps(one), max_bytes=10**6) for one in json.loads(outbox)]

    def pk(self, consumer: str, event: CloudEvent, key: Key | None = None) -> str:
        rule = key or Key.event()
        return rule.of(event, fingerprint=fingerprint(event), consumer=consumer)

    def _outbox(self, pk: str, consumer: str, event: CloudEvent, types: Sequence[str]) -> str:
        order = event.data["order_id"]
        drafts = [draft(one, {"order_id": order, "amount": 700}, order) for one in types]
        return written(drafts, inbound=event, pk=pk, consumer=consumer, now=self.now)

    def order(self, name: str) -> CloudEvent:
        """Write down an order that was placed, paid and told of; return the event it began with."""
        event, order_id = placed(name), Key.field("order_id")
        self.commit("orders", event)
        [reserved] = self.commit("inventory", event, "stock.reserved")
        [captured] = self.commit("payments", reserved, "payment.captured", key=order_id)
        self.commit("inventory", captured)
        self.commit("orders", captured)
        self.commit("notifications", captured, key=order_id)
        return event

    def bury(
        self,
        consumer: str,
        message: str,
        reason: str | None = Reason.INVALID_DATA,
        pk: str | None = None,
        **facts: str,
    ) -> None:
        """Put a message into a dead-letter queue."""
        named = {DeadLetter.REASON: reason, DeadLetter.KEY_HASH: key_hash(pk) if pk else None}
        named |= {f"once-{name.replace('_', '-')}": value for name, value in facts.items()}
        self.cloud.sqs.send_message(
            QueueUrl=self.box(consumer),
            MessageBody=message,
            MessageAttributes={name: text(value) for name, value in named.items() if value},
        )

    def box(self, consumer: str) -> str:
        service = self.cloud.outputs["once-service"]
        name = f"DeadLetters{consumer.capitalize()}"
        return service["RelayDeadLetters" if consumer == "outbox_relay" else name]

    def log(self, consumer: str, said: str, **fields: Any) -> None:
        """Write a line into a function's log, as Powertools does."""
        self.write(consumer, json.dumps({"level": "INFO", "message": said, **fields}))

    def write(self, consumer: str, line: str) -> None:
        """Write any line into a function's log."""
        self.logs.put_log_events(
            logGroupName=f"/aws/lambda/once-{consumer}",
            logStreamName="s",
            logEvents=[{"timestamp": int(time.time() * 1000), "message": line}],
        )
