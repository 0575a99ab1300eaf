"""Business tables: the items that a handler reads and writes, with their keys and their models."""

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from boto3.dynamodb.types import Binary, TypeDeserializer
from botocore.exceptions import ClientError
from msgspec import Struct

from once.dynamodb_rules import serialize
from once.errors import THROTTLING, InvalidWrite, RequestRefused, RetryableError, Throttled
from once.events.cloud_event import MODEL_FAULTS, fault_text
from once.events.models import is_typed_dict, model_of
from once.names import COMMIT_ATTRIBUTE, Limits
from once.settings import TableSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Any]
ItemKey = tuple[str, tuple[tuple[str, Any], ...]]
"""A table's logical name, and the attributes of an item's primary key."""

_DESERIALIZER = TypeDeserializer()
_KEY_TYPES = (str, bytes, int, Decimal)
_KEY_BYTES = (Limits.PARTITION_KEY_BYTES, Limits.SORT_KEY_BYTES)
_MAX_BYTES_A_CHARACTER = 4  # in UTF-8

ItemT = TypeVar("ItemT")


class Table(Struct, Generic[ItemT], frozen=True):
    """A business table by its logical name. `Consumer.table` makes one.

    Attributes:
        name: the name in the consumer's declaration.
        model: the class of its items; None if they are dicts.
    """

    name: str
    model: type[ItemT] | None = None

    def item_of(self, given: "ItemT | Item") -> dict[str, Any]:
        """Return an object of the model as an item. A mapping is taken as it is.

        Raises:
            InvalidWrite: it is no object of the model, and no mapping.
        """
        if isinstance(given, Mapping) and not is_typed_dict(self.model):
            return dict(given)
        kind = dict if is_typed_dict(self.model) else self.model
        if kind is None or not isinstance(given, kind):
            wanted = "a dict" if self.model is None else f"{self.model.__name__} or a dict"
            raise InvalidWrite(f"{self.name} takes {wanted}, not {type(given).__name__}")
        try:
            return model_of(self.model).item_of(given)
        except InvalidWrite as error:
            raise InvalidWrite(f"a write to {self.name}: {error}") from None

    def read(self, item: Item) -> ItemT:
        """Return an item as an object of the model, or as a dict without one.

        Raises:
            RetryableError: the item does not fit the model.
        """
        if self.model is None:
            return cast(ItemT, dict(item))
        fields = {name: value for name, value in item.items() if name != COMMIT_ATTRIBUTE}
        try:
            return cast(ItemT, model_of(self.model).read_item(_plain(fields)))
        except MODEL_FAULTS as error:
            # Perhaps a newer version of the function wrote it: another attempt may succeed.
            raise RetryableError(
                f"an item of {self.name} does not fit {self.model.__name__}: {fault_text(error)}"
            ) from None


def _plain(value: Any) -> Any:
    """Return what boto3's deserializer made, with whole numbers as int, and bytes as bytes."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | set):
        return type(value)(map(_plain, value))
    if isinstance(value, Binary):
        return bytes(value)  # type: ignore[call-overload]
    whole = isinstance(value, Decimal) and value == value.to_integral_value()
    return int(value) if whole else value


def item_key(table: Table[Any], settings: TableSettings, key: Item) -> ItemKey:
    """Return the key of an item, by the table's primary key.

    Raises:
        InvalidWrite: it is no primary key of this table.
    """
    is_complete = len(key) == len(settings.key)
    for name, limit in zip(settings.key, _KEY_BYTES, strict=False):
        value = key.get(name)
        if type(value) is str and 0 < len(value) <= limit // _MAX_BYTES_A_CHARACTER:
            continue
        if isinstance(value, bool) or not isinstance(value, _KEY_TYPES) or value in ("", b""):
            is_complete = False
        content = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        if isinstance(content, bytes) and len(content) > limit:
            raise InvalidWrite(
                f"the key of {table.name} has {len(content)} bytes in {name}, and DynamoDB takes "
                f"{limit}: give a shorter one, such as a hash of the value"
            )
    if not is_complete:
        names = ", ".join(settings.key)
        raise InvalidWrite(
            f"the key of {table.name} is {names}: text, a number or bytes, not empty"
        )
    return table.name, tuple(sorted(key.items()))


def read_item(client: "DynamoDBClient", table: TableSettings, key: Item) -> dict[str, Any] | None:
    """Return an item of a business table, read consistently; None if it does not exist.

    Raises:
        RequestRefused: the table is missing, or throttled (`Throttled`).
        botocore.exceptions.ClientError, BotoCoreError: DynamoDB did not return the item.
    """
    try:
        answer = client.get_item(TableName=table.name, Key=serialize(key), ConsistentRead=True)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in THROTTLING:
            raise Throttled(f"DynamoDB throttled a read of the table {table.name}") from None
        if code != "ResourceNotFoundException":
            raise
        # A deployment that is under way, or incomplete: no message causes it.
        raise RequestRefused(f"DynamoDB does not find the table {table.name}") from None
    if "Item" not in answer:
        return None
    return {name: _DESERIALIZER.deserialize(v) for name, v in answer["Item"].items()}
