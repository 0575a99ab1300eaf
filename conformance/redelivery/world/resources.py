"""The resources of a subject, in the simulated AWS, and the state that a run leaves in them.

The state is rows in collections, whatever holds them.
"""

import copy
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from moto.backends import get_backend
from moto.core.exceptions import ServiceException

from redelivery.boundary.aws import Names, plain
from redelivery.boundary.invocation import Record
from redelivery.subject import DAY, Subject, SubjectError, Table

REGION = "us-east-1"
ACCOUNT = "123456789012"
SOURCE = "source"
DLQ = "source-dlq"
_RETENTION_SECONDS = "1209600"
_EXPIRY = re.compile(r"ttl|expir", re.IGNORECASE)
_AN_EPOCH = 1_000_000_000
_EXECUTION_SECONDS = 1.0
_NAME_SECONDS = 90 * DAY


class Resources:
    """The resources of a subject, created anew for each run.

    What the kit itself does here does not go through an SDK: moto's backends take a hundredth of
    the time, and a check has seven calls of its own for each call of the handler.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._session = boto3.Session(region_name=REGION)
        self._clients: dict[str, Any] = {}
        self._tables: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """Return the kit's own client; made once, since making one takes longer than a call."""
        if service not in self._clients:
            self._clients[service] = self._session.client(service)
        return self._clients[service]

    def create(self) -> None:
        """Create everything in an empty AWS, and call the subject's `set_up`.

        Raises:
            SubjectError: AWS or boto3 refuses a name, a key or an item, or `set_up` fails.
        """
        for what, make in self._creations():
            try:
                make()
            except (BotoCoreError, ClientError, ServiceException, TypeError) as error:
                raise SubjectError(f"{what} cannot be created: {error}") from error
        try:
            self.subject.set_up()
        except Exception as error:
            raise SubjectError(f"set_up fails: {error!r}") from error

    def _creations(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield each resource as it is named to the user, and what creates it."""
        yield "the source queue", partial(_create_source, self.subject)
        for name in self.subject.queues:
            yield f"queue {name}", partial(backend("sqs").create_queue, name, **_fifo(name))
        for name in self.subject.topics:
            create = self.client("sns").create_topic
            kind = {k.replace("Queue", "Topic"): value for k, value in _fifo(name).items()}
            yield f"topic {name}", partial(create, Name=name, Attributes=kind)
        for name in self.subject.buckets:
            yield f"bucket {name}", partial(self.client("s3").create_bucket, Bucket=name)
        for table in self.subject.tables:
            yield f"table {table.name}", partial(self._create_table, table)

    def _create_table(self, table: Table) -> None:
        tables = backend("dynamodb").tables
        if table.name not in self._tables:
            self.client("dynamodb").create_table(**table.request)
            if table.items:
                stored = self._session.resource("dynamodb").Table(table.name)
                for item in table.items:
                    stored.put_item(Item=dict(item))
            self._tables[table.name] = tables[table.name]
        tables[table.name] = copy.deepcopy(self._tables[table.name])

    def delete_expired(self, now: float, *, undeclared: bool = False) -> list[str]:
        """Delete the items whose time to live has passed.

        DynamoDB deletes "within a few days" of it, so that a record may still be there or not:
        https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ttl-expired-items.html

        With `undeclared`, the attribute is guessed in tables of which nothing is known, but for the
        subject's own items. Returns those that were guessed, as `table.attribute`.
        """
        _close_executions(now)
        guessed = set()
        for table in self.subject.tables:
            guess = undeclared and table.ttl == ""
            names = table.key_names
            own = [{name: plain(item.get(name)) for name in names} for item in table.items]
            stored = backend("dynamodb").tables[table.name]
            for entry in stored.all_items() if table.ttl or guess else ():
                item = _values(entry)
                is_own = {name: item[name] for name in names} in own
                attributes = [table.ttl] if table.ttl else [] if is_own else _expiries(item)
                for attribute in attributes:
                    if item.get(attribute) is not None and float(item[attribute]) < now:
                        guessed |= {f"{table.name}.{attribute}"} if guess else set()
                        stored.delete_item(entry.hash_key, entry.range_key)
        return sorted(guessed)


def backend(service: str) -> Any:
    """Return the simulation of a service, as it is now: `MockAWS.reset` replaces it."""
    found: Any = get_backend(service)
    return found[ACCOUNT][REGION]


def _values(entry: Any) -> dict[str, Any]:
    return {name: plain(value) for name, value in entry.to_json()["Attributes"].items()}


def names(subject: Subject) -> Names:
    """Return what the subject's requests address."""
    keys = {table.name: table.key_names for table in subject.tables}
    own = {queue_url(subject, SOURCE): "source", queue_url(subject, DLQ): "dlq"}
    return Names(own, keys, subject.answers)


def queue_url(subject: Subject, name: str) -> str:
    """Return a queue's URL."""
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{queue_name(subject, name)}"


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


def queue_name(subject: Subject, name: str) -> str:
    """Return a queue's name; source and dead-letter queue are FIFO if the subject is."""
    return f"{name}.fifo" if subject.fifo and name in {SOURCE, DLQ} else name


def _close_executions(now: float) -> None:
    """End the executions of state machines, as real ones do; free a name after 90 days.

    https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
    """
    is_used = "moto.stepfunctions.models" in sys.modules  # to import it takes long
    for machine in backend("stepfunctions").state_machines if is_used else ():
        for execution in list(machine.executions):
            age = now - execution.start_date.timestamp()
            if age > _NAME_SECONDS or machine.type == "EXPRESS":  # which keeps no names
                machine.executions.remove(execution)
            elif age > _EXECUTION_SECONDS:
                execution.status = "SUCCEEDED"


def _create_source(subject: Subject) -> None:
    source, dlq = queue_name(subject, SOURCE), queue_name(subject, DLQ)
    redrive = {
        "deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{dlq}",
        "maxReceiveCount": subject.max_receives,
    }
    create = partial(backend("sqs").create_queue, MessageRetentionPeriod=_RETENTION_SECONDS)
    create(dlq, **_fifo(dlq))
    create(
        source,
        VisibilityTimeout=str(subject.visibility_seconds),
        RedrivePolicy=json.dumps(redrive),
        **_fifo(source),
    )


def _fifo(name: str) -> dict[str, str]:
    if not name.endswith(".fifo"):
        return {}
    return {"FifoQueue": "true", "ContentBasedDeduplication": "true"}


def _expiries(item: Mapping[str, Any]) -> list[str]:
    """Return the attributes that look like a time to live: by their names, and epoch seconds."""
    return [
        name
        for name, value in item.items()
        if _EXPIRY.search(name) and isinstance(value, int | float) and value > _AN_EPOCH
    ]


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Collection:
    """Rows of one kind: a table's items, the messages to one queue, the requests to one URL.

    Attributes:
        key: the columns that identify a row; empty if rows have no identity.
        rows: each a flat mapping from the path of a value, as `lines.0.sku`, to the value.
        repeatable: whether equal rows count as one.
    """

    key: tuple[str, ...]
    rows: tuple[Row, ...]
    repeatable: bool = False


State = Mapping[str, Collection]


def state_of(resources: Resources, record: Record) -> State:
    """Read everything that a check compares."""
    subject = resources.subject
    collections: dict[str, Collection] = {}
    for table in filter(lambda table: table.is_state, subject.tables):
        items = map(_values, backend("dynamodb").tables[table.name].all_items())
        rows = tuple(dict(_flat(item, "")) for item in items)
        collections[table.name] = Collection(table.key_names, rows)
    for store in subject.stores:
        collections[store.name] = Collection(store.key, tuple(map(flat, store.items())))
    for bucket in subject.buckets:
        collections[f"s3 {bucket}"] = Collection(
            ("Key",), tuple(_objects(bucket, resources.client("s3")))
        )
    sent: dict[str, list[Row]] = {}
    for one in record.sent:
        sent.setdefault(one.target, []).append(flat(one.content))
    for target, contents in sent.items():
        _, _, place = target.partition(" ")
        last = target.rpartition(" ")[2]
        repeatable = any(last == name or place.startswith(name) for name in subject.repeatable)
        collections[target] = Collection((), tuple(contents), repeatable)
    return collections


def flat(value: Mapping[str, Any]) -> Row:
    """Return a value as a flat row. Text that holds a JSON object is read as one."""
    return dict(_flat(plain(value), ""))


def _objects(bucket: str, s3: Any) -> Iterator[Row]:
    for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
        body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
        text = body.decode("utf-8", "replace")
        content = text if _parsed(text) is not text else hashlib.sha256(body).hexdigest()
        yield flat({"Key": entry["Key"], "body": content})


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    value = _parsed(value)
    if isinstance(value, dict) and value:
        for name, entry in value.items():
            yield from _flat(entry, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, entry in enumerate(value):
            yield from _flat(entry, f"{path}.{index}")
    else:
        yield path, value


def _parsed(value: Any) -> Any:
    """Return what a text of JSON holds, if that is an object or a list; another value as it is."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value
