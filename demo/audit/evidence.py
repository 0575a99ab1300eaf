"""Evidence: access to the systems that the audit reads, and how it reads them."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Manifest = Mapping[str, Any]
Item = Mapping[str, Any]

WAIT_SECONDS = 1
"""Long polling: without a wait, SQS may return no message although the queue holds some."""
_ATTEMPTS = 3


class UnreadMessagesError(RuntimeError):
    """A queue holds messages that the audit cannot read, so that it would count too few."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Access to the systems of a deployment.

    Attributes:
        dynamodb: boto3 client.
        sqs: boto3 client.
        logs: boto3 client.
        tables: physical table names by logical name, including `dedup`.
        dead_letters: queue URLs by consumer.
        log_groups: log group names by consumer.
        subscribers: consumers by the event type that they subscribe to.
        charges: the payment provider's book of charges.
        emails: the e-mails that were sent.
    """

    dynamodb: Any
    sqs: Any
    logs: Any
    tables: Mapping[str, str]
    dead_letters: Mapping[str, str]
    log_groups: Mapping[str, str]
    subscribers: Mapping[str, Collection[str]]
    charges: Sequence[Mapping[str, Any]]
    emails: Sequence[Mapping[str, Any]]

    def items(self, table: str) -> Iterator[Item]:
        """Read a whole table, in DynamoDB's own JSON form."""
        pages = self.dynamodb.get_paginator("scan").paginate(
            TableName=self.tables[table], ConsistentRead=True
        )
        return (item for page in pages for item in page["Items"])

    def by_key(self, table: str, key: str) -> dict[str, Item]:
        """Read a whole table, by its partition key."""
        return {item[key]["S"]: item for item in self.items(table)}

    def messages(self, url: str) -> Collection[dict[str, Any]]:
        """Read a queue to its end, and make every message visible again.

        Raises:
            UnreadMessagesError: the queue holds more messages than could be received.
        """
        held: dict[str, dict[str, Any]] = {}
        try:
            for _ in range(_ATTEMPTS):
                while self._receive(url, held):
                    pass
                if (unread := self._number(url) - len(held)) <= 0:
                    break
                self._receive_groups(url, held)
        finally:
            self._release(url, held.values())
        if unread > 0:
            raise UnreadMessagesError(
                f"{unread} messages of {url} could not be received beside the other {len(held)}: "
                "another reader holds them, or they are behind ten others of their message group, "
                "of which SQS returns no more"
            )
        return held.values()

    def _receive_groups(self, url: str, held: dict[str, dict[str, Any]]) -> None:
        """Receive what SQS has withheld: the messages of a group whose first ones are in flight.

        The first ones are released, and up to ten of the group received together.
        """
        for group in {_group(message) for message in held.values()} - {None}:
            self._release(url, [each for each in held.values() if _group(each) == group])
            self._receive(url, held)

    def _receive(self, url: str, held: dict[str, dict[str, Any]]) -> bool:
        """Receive up to ten messages, and tell whether there were any."""
        answer = self.sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            AttributeNames=["MessageGroupId"],
            MessageAttributeNames=["All"],
            VisibilityTimeout=120,
            WaitTimeSeconds=WAIT_SECONDS,
        )
        found = answer.get("Messages", [])
        held.update((message["MessageId"], message) for message in found)
        return bool(found)

    def _release(self, url: str, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            self.sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )

    def _number(self, url: str) -> int:
        """Return the number of messages in a queue, whether they can be received or not."""
        states = ("", "NotVisible", "Delayed")
        names = [f"ApproximateNumberOfMessages{state}" for state in states]
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(map(int, answer["Attributes"].values()))


def _group(message: Mapping[str, Any]) -> str | None:
    group: str | None = message.get("Attributes", {}).get("MessageGroupId")
    return group


def text(item: Item, name: str) -> str:
    """Return a text of an item, empty where there is none."""
    return str(item.get(name, {}).get("S", ""))


def number(item: Item, name: str) -> int:
    """Return a number of an item, 0 where there is none."""
    return int(item.get(name, {"N": "0"})["N"])


def count_fates(logs: Any, group: str) -> Counter[str]:
    """Count the messages delivered to a function by what its log lines say became of them."""
    found: Counter[str] = Counter()
    for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group):
        for event in page["events"]:
            line = event["message"]
            with suppress(ValueError):  # not JSON
                found.update(json.loads(line[line.index("{") :]).get("fates", {}))
    return found
