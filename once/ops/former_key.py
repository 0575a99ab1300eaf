"""The command `former`: looks for the former record of an event that was processed before.

A wrong prefix, hash or value of `former=` finds no record, and the event would be processed again.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option

from once.errors import OnceError
from once.events import cloud_event
from once.events.strict_json import parse
from once.intake.registration import Handler, Registered
from once.ops import terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import MAX_EVENT_BYTES
from once.ops.errors import OpsError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_SAMPLE = 25
"""Number of items that are read for the form of the table's keys."""
_SHOWN = 3

app = terminal.command_group()


@app.command()
def former(
    handler: Annotated[
        Path,
        Argument(
            metavar="HANDLER",
            exists=True,
            dir_okay=False,
            help="The file with the handlers, in a folder below this one.",
        ),
    ],
    event: Annotated[
        str,
        Argument(
            metavar="EVENT",
            help="An event that the former function has processed: JSON, @FILE with JSON, or - for "
            "standard input.",
        ),
    ],
    event_type: Annotated[
        str | None, Option("--type", help="The event's type, for plain JSON.")
    ] = None,
    table: Annotated[
        str | None, Option(help="The table's name; by default the one in the code.")
    ] = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Look for the former record of an event, before Once takes over.

    The key comes from `former=` of the event's handler. Without an item under it, the error tells
    how the table's keys begin. A command is an event with the caller's key as its id and the scope
    as its subject. It reads the table of the environment's account, and needs no deployment.
    """
    found = _event(event, event_type)
    records = _handler(handler, found.type).former
    if records is None:
        raise OpsError(f"the handler of {found.type!r} has no former=")
    name, dynamodb = table or records.table.name, client("dynamodb")
    attributes = _key_attributes(dynamodb, name)
    try:
        record = records.record_of(found, attributes)
    except OnceError as error:
        raise OpsError(str(error)) from None
    except Exception as error:  # of the user's own `value` or `key`
        raise OpsError(f"the key of former= cannot be computed for this event: {error!r}") from None
    if record is None:
        raise OpsError("the former function has no record of this event: its key is None")
    key = dict(zip(attributes, record.key, strict=True))
    item = dynamodb.get_item(
        TableName=name, Key={each: {"S": text} for each, text in key.items()}, ConsistentRead=True
    ).get("Item")
    if item is None:
        raise OpsError(_missing(name, record.key, _sample(dynamodb, name, attributes)))
    status = item.get(records.status, {}).get("S", "none")
    done = status == records.done
    if as_json:
        terminal.print_json({"table": name, "key": key, "status": status, "done": done})
        return
    told = "a duplicate" if done else "not finished: retried, then dead-lettered"
    shown = ", ".join(record.key)
    terminal.console.print(
        f"found in {name}: {shown}, {records.status} {status}. To Once, the event is {told}",
        soft_wrap=True,
    )


def _event(text: str, event_type: str | None) -> cloud_event.CloudEvent:
    try:
        tree = parse(terminal.data_text(text, "EVENT"), max_bytes=MAX_EVENT_BYTES)
        if event_type is None:
            return cloud_event.event_of(tree)
    except OnceError as error:
        raise BadParameter(f"{error}; plain JSON needs its --type", param_hint="EVENT") from None
    return cloud_event.CloudEvent(id="", source="", type=event_type, data=tree)


def _handler(file: Path, event_type: str) -> Handler:
    """Return the handler of a type, from the consumers and commands of a file."""
    folder = Path.cwd()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        parts = file.resolve().relative_to(folder.resolve()).with_suffix("").parts
        module = import_module(".".join(parts))
    except Exception as error:
        raise OpsError(
            f"{file} cannot be imported ({error!r}): run this in the folder that its own imports "
            "begin at, with its packages installed"
        ) from None
    registered = [each for each in vars(module).values() if isinstance(each, Registered)]
    handlers = {name: each for one in registered for name, each in one.handlers.items()}
    if event_type not in handlers:
        known = ", ".join(sorted(handlers)) or "none"
        raise OpsError(f"{file} has no handler for {event_type!r}: its types are {known}")
    return handlers[event_type]


def _key_attributes(dynamodb: "DynamoDBClient", table: str) -> tuple[str, ...]:
    """Return the attributes of the table's primary key, the partition key first."""
    schema = dynamodb.describe_table(TableName=table)["Table"]["KeySchema"]
    ordered = sorted(schema, key=lambda each: each["KeyType"] != "HASH")
    return tuple(each["AttributeName"] for each in ordered)


Key = tuple[str, ...]


def _sample(dynamodb: "DynamoDBClient", table: str, attributes: Key) -> list[Key]:
    """Return the keys of a few items of the table."""
    items = dynamodb.scan(TableName=table, Limit=_SAMPLE)["Items"]
    return [tuple(item[name].get("S", "") for name in attributes) for item in items]


def _missing(table: str, key: Key, sample: list[Key]) -> str:
    fault = f"{table} has no item {_shown(key)}: Once would process the event again"
    beginnings = dict.fromkeys(map(_beginning, sample))
    if not beginnings:
        return f"{fault}. The table is empty: name another one with --table"
    if _beginning(key) in beginnings:
        return (
            f"{fault}. Its keys look alike, such as {_shown(sample[0])}: compare what former= "
            "hashes with the former function, or take an event that it has processed"
        )
    known = " or ".join(map(_shown, [*beginnings][:_SHOWN]))
    return f"{fault}. The table's keys begin with {known}: correct the prefix in former="


def _beginning(key: Key) -> Key:
    """Return a key without what differs by event: the text after the last `#`."""
    *partition, last = key
    return (*partition, last.rpartition("#")[0])


def _shown(key: Key) -> str:
    return json.dumps(key[0] if len(key) == 1 else key, ensure_ascii=False)
