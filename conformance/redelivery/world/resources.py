"""The resources of a subject, in the simulated AWS: tables, queues, topics, buckets."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from redelivery.boundary.aws import Names
from redelivery.subject import Subject, SubjectError, Table

REGION = "us-east-1"
ACCOUNT = "123456789012"
SOURCE = "source"
DLQ = "source-dlq"
_RETENTION_SECONDS = "1209600"
_EXPIRY = re.compile(r"ttl|expir", re.IGNORECASE)
_AN_EPOCH = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Clients:
    """The kit's own clients; made once, since making one takes longer than a call."""

    dynamodb: Any
    tables: Any
    sqs: Any
    sns: Any
    s3: Any

    @classmethod
    def make(cls) -> "Clients":
        """Make the clients."""
        session = boto3.Session(region_name=REGION)
        return cls(
            session.client("dynamodb"),
            session.resource("dynamodb"),
            session.client("sqs"),
            session.client("sns"),
            session.client("s3"),
        )


def names(subject: Subject) -> Names:
    """Return what the subject's requests address."""
    keys = {table.name: key_attributes(table) for table in subject.tables}
    return Names({queue_url(subject, SOURCE): "source", queue_url(subject, DLQ): "dlq"}, keys)


def key_attributes(table: Table) -> tuple[str, ...]:
    """Return the names of a table's key attributes."""
    return tuple(_attribute(key)[0] for key in (table.key, table.sort_key) if key)


def queue_url(subject: Subject, name: str) -> str:
    """Return a queue's URL; source and dead-letter queue are FIFO if the subject is."""
    suffix = ".fifo" if subject.fifo and name in {SOURCE, DLQ} else ""
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}{suffix}"


def environment(subject: Subject) -> dict[str, str]:
    """Return the function's environment variables, with the names of resources filled in.

    Raises:
        SubjectError: a variable names a resource that the subject does not have.
    """
    known = {
        "{source}": queue_url(subject, SOURCE),
        "{dlq}": queue_url(subject, DLQ),
        **{f"{{queue:{name}}}": queue_url(subject, name) for name in subject.queues},
        **{
            f"{{topic:{name}}}": f"arn:aws:sns:{REGION}:{ACCOUNT}:{name}" for name in subject.topics
        },
    }
    filled = dict(subject.environment)
    for name in filled:
        for placeholder, replacement in known.items():
            filled[name] = filled[name].replace(placeholder, replacement)
        if filled[name].startswith(("{queue:", "{topic:")):
            raise SubjectError(
                f"the variable {name} names {filled[name]}, which the subject does not have. "
                f"Add it to its queues or topics; known are {', '.join(sorted(known))}"
            )
    return filled


def create(subject: Subject, clients: Clients) -> None:
    """Create everything in an empty AWS, and call the subject's `set_up`.

    Raises:
        SubjectError: AWS or boto3 refuses a name, a key or an item, or `set_up` fails.
    """
    for what, make in _creations(subject, clients):
        try:
            make()
        except (BotoCoreError, ClientError, TypeError) as error:
            raise SubjectError(f"{what} cannot be created: {error}") from error
    try:
        subject.set_up()
    except Exception as error:
        raise SubjectError(f"set_up fails: {error!r}") from error


def _creations(subject: Subject, clients: Clients) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each resource as it is named to the user, and what creates it."""
    sqs, sns, s3 = clients.sqs, clients.sns, clients.s3
    yield "the source queue", partial(_create_source, subject, sqs)
    for name in subject.queues:
        yield f"queue {name}", partial(sqs.create_queue, QueueName=name, Attributes=_fifo(name))
    for name in subject.topics:
        yield f"topic {name}", partial(sns.create_topic, Name=name, Attributes=_fifo(name))
    for name in subject.buckets:
        yield f"bucket {name}", partial(s3.create_bucket, Bucket=name)
    for table in subject.tables:
        yield f"table {table.name}", partial(_create_table, table, clients)


def _create_source(subject: Subject, sqs: Any) -> None:
    suffix = ".fifo" if subject.fifo else ""
    sqs.create_queue(
        QueueName=DLQ + suffix,
        Attributes={"MessageRetentionPeriod": _RETENTION_SECONDS, **_fifo(DLQ + suffix)},
    )
    redrive = {
        "deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{DLQ}{suffix}",
        "maxReceiveCount": subject.max_receives,
    }
    attributes = {
        "VisibilityTimeout": str(subject.visibility_seconds),
        "MessageRetentionPeriod": _RETENTION_SECONDS,
        "RedrivePolicy": json.dumps(redrive),
        **_fifo(SOURCE + suffix),
    }
    sqs.create_queue(QueueName=SOURCE + suffix, Attributes=attributes)


def _fifo(name: str) -> dict[str, str]:
    if not name.endswith(".fifo"):
        return {}
    return {"FifoQueue": "true", "ContentBasedDeduplication": "true"}


def _create_table(table: Table, clients: Clients) -> None:
    attributes: dict[str, str] = {}

    def schema(*keys: str) -> list[dict[str, str]]:
        named = [_attribute(key) for key in keys if key]
        attributes.update(named)
        roles = zip(named, ("HASH", "RANGE"), strict=False)
        return [{"AttributeName": name, "KeyType": role} for (name, _), role in roles]

    own = schema(table.key, table.sort_key)
    indexes: list[dict[str, Any]] = [
        {
            "IndexName": index.name,
            "KeySchema": schema(index.key, index.sort_key),
            "Projection": {"ProjectionType": "ALL"},
        }
        for index in table.indexes
    ]
    # An index with the table's partition key is a local one, unless the table has no sort key.
    local = [i for i in indexes if i["KeySchema"][:1] == own[:1] and len(own) > 1]
    other = [index for index in indexes if index not in local]
    clients.dynamodb.create_table(
        TableName=table.name,
        KeySchema=own,
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": kind} for name, kind in attributes.items()
        ],
        BillingMode="PAY_PER_REQUEST",
        **({"LocalSecondaryIndexes": local} if local else {}),
        **({"GlobalSecondaryIndexes": other} if other else {}),
    )
    for item in table.items:
        clients.tables.Table(table.name).put_item(Item=dict(item))


def _attribute(key: str) -> tuple[str, str]:
    name, _, kind = key.partition(":")
    return name, kind or "S"


def items_of(table: Table, clients: Clients) -> Iterator[Mapping[str, Any]]:
    """Yield every item of a table, as Python values."""
    scan = clients.tables.meta.client.get_paginator("scan")
    for page in scan.paginate(TableName=table.name, ConsistentRead=True):
        yield from page["Items"]


def delete_expired(
    subject: Subject, clients: Clients, now: float, *, undeclared: bool = False
) -> list[str]:
    """Delete the items whose time to live has passed.

    DynamoDB deletes "within a few days" of it, so that a record may still be there or not:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ttl-expired-items.html

    Args:
        undeclared: whether to guess the attribute in tables of which nothing is known, but for the
            subject's own items.

    Returns:
        The attributes that were guessed, as `table.attribute`.
    """
    guessed = set()
    for table in subject.tables:
        guess = undeclared and table.ttl == ""
        names = key_attributes(table)
        own = [{name: item.get(name) for name in names} for item in table.items]
        for item in list(items_of(table, clients)) if table.ttl or guess else ():
            key = {name: item[name] for name in names}
            attributes = [table.ttl] if table.ttl else [] if key in own else _expiries(item)
            for attribute in attributes:
                if item.get(attribute) is not None and float(item[attribute]) < now:
                    guessed |= {f"{table.name}.{attribute}"} if guess else set()
                    clients.tables.Table(table.name).delete_item(Key=key)
    return sorted(guessed)


def _expiries(item: Mapping[str, Any]) -> list[str]:
    """Return the attributes that look like a time to live: by their names, and epoch seconds."""
    return [
        name
        for name, value in item.items()
        if _EXPIRY.search(name) and isinstance(value, Decimal) and value > _AN_EPOCH
    ]
