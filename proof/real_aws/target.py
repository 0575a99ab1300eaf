"""Target of the checks: the deployed service, and what a producer or an auditor does with it."""

import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from demo.audit import Evidence
from once.names import EVENT_TYPE_ATTRIBUTE, RELAY, UNROUTED
from once.ops.aws.clients import total_depth
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.testing import cloud_event
from proof.real_aws.account import ClientOf

SUBSCRIBERS = {"verify.counted": ("follower",)}
_BATCH = 10


@dataclass(frozen=True, kw_only=True)
class Target:
    """The deployed service.

    Attributes:
        parts: its resources.
        client: makes clients.
        account: the account number.
        redeploy: deploys it once more, with further values of the CDK context, which stay.
        local: whether it was deployed for the embedded AWS, without CodeDeploy.
        started: the time before the first message.
        run: part of every id, so that nothing of an earlier run counts.
    """

    parts: Deployment
    client: ClientOf
    account: str
    redeploy: Callable[..., object]
    local: bool = False
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def id(self, name: str) -> str:
        """Return an id of this run."""
        return f"{self.run}-{name}"

    def asked(self, name: str, **data: Any) -> str:
        """Return the body of an event that adds one to the counter of this name."""
        counter = self.id(name)
        found = {"counter": counter, **data}
        return json.dumps(cloud_event("verify.asked", found, event_id=counter, source="/verify"))

    def publish(self, bodies: Sequence[str], event_type: str = "verify.asked") -> None:
        """Publish bodies on the ingress topic, as a producer does.

        Raises:
            OpsError: SNS refused one.
        """
        attributes = {EVENT_TYPE_ATTRIBUTE: {"DataType": "String", "StringValue": event_type}}
        for start in range(0, len(bodies), _BATCH):
            entries = [
                {"Id": str(n), "Message": body, "MessageAttributes": attributes}
                for n, body in enumerate(bodies[start : start + _BATCH])
            ]
            answer = self.client("sns").publish_batch(
                TopicArn=self.parts.ingress_topic_arn, PublishBatchRequestEntries=entries
            )
            if answer.get("Failed"):
                raise OpsError(f"the ingress topic refused messages: {answer['Failed']}")

    def item(self, table: str, name: str) -> dict[str, Any]:
        """Return an item by the name in its id, in DynamoDB's JSON; empty if there is none."""
        answer = self.client("dynamodb").get_item(
            TableName=self.parts.table(table), Key={"id": {"S": self.id(name)}}, ConsistentRead=True
        )
        return dict(answer.get("Item", {}))

    def amount(self, name: str, table: str = "counters") -> int:
        """Return the amount of a counter; 0 if there is none."""
        return int(self.item(table, name).get("amount", {"N": "0"})["N"])

    def amounts(self, names: Iterable[str], table: str = "counters") -> dict[str, int]:
        """Return the amounts of counters by name."""
        return {name: self.amount(name, table) for name in names}

    def messages_left(self, *consumers: str) -> int:
        """Return the number of messages that the consumers have not finished."""
        urls = [url for name in consumers for url in self.parts.consumer(name).queue_urls]
        return total_depth(self.client("sqs"), urls).total

    def evidence(self) -> Evidence:
        """Return the evidence for the demo's audit; there are no charges and no e-mails."""
        consumers = self.parts.consumers.values()
        return Evidence(
            dynamodb=self.client("dynamodb"),
            sqs=self.client("sqs"),
            logs=self.client("logs"),
            tables={**self.parts.tables, "dedup": self.parts.dedup_table},
            dead_letters={
                **{each.name: each.dead_letter_url for each in consumers},
                RELAY: self.parts.relay_dead_letter_url,
                UNROUTED: self.parts.unrouted_queue_url,
            },
            log_groups={each.name: f"/aws/lambda/{each.function_name}" for each in consumers},
            subscribers=SUBSCRIBERS,
            charges=(),
            emails=(),
        )

    def arn(self, queue_url: str) -> str:
        """Return the ARN of a queue."""
        answer = self.client("sqs").get_queue_attributes(
            QueueUrl=queue_url, AttributeNames=["QueueArn"]
        )
        return str(answer["Attributes"]["QueueArn"])

    def mapping(self, consumer: str) -> dict[str, Any]:
        """Return the event source mapping of a consumer's main queue."""
        arn = self.arn(self.parts.consumer(consumer).queue_url)
        [found] = self.client("lambda").list_event_source_mappings(EventSourceArn=arn)[
            "EventSourceMappings"
        ]
        return dict(found)


def queue_name(url: str) -> str:
    """Return the name of a queue."""
    return url.rpartition("/")[2]
