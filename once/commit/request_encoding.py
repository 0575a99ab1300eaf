"""Request encoding: writes the JSON body of TransactWriteItems in place of the SDK's serialiser.

The serialiser compares every value of every item with the service model. For a group commit this
takes longer than all other work of the SDK. Values are in DynamoDB's own JSON form already, so they
are encoded directly. The SDK still signs, sends and retries the request.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from once.errors import InvalidWrite

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_OPERATION = "dynamodb.TransactWriteItems"
_ITEMS = "TransactItems"
_SET_ASIDE = "once_items"


def encoded(entries: Iterable[Any]) -> list[msgspec.Raw]:
    """Return entries of TransactItems, each as JSON.

    Raises:
        InvalidWrite: an entry cannot be JSON, for example because a condition is not text.
    """
    try:
        return [msgspec.Raw(_ENCODER.encode(entry)) for entry in entries]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(f"a write that cannot be sent to DynamoDB: {error}") from None


def write_bodies(client: "DynamoDBClient") -> None:
    """Make a client accept encoded entries for TransactItems, besides plain ones."""
    events: Any = client.meta.events
    events.register(f"provide-client-params.{_OPERATION}", _set_aside, unique_id="once-set-aside")
    events.register(f"before-call.{_OPERATION}", _put_back, unique_id="once-put-back")


def _set_aside(params: dict[str, Any], context: dict[str, Any], **_: Any) -> dict[str, Any]:
    context[_SET_ASIDE] = params[_ITEMS]
    return {**params, _ITEMS: []}


def _put_back(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    body = msgspec.json.decode(params["body"])
    params["body"] = _ENCODER.encode({**body, _ITEMS: context.pop(_SET_ASIDE)})


def _plain(value: Any) -> Any:
    """Return an instance of a subclass of str or bytes as its base type."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} is no value of DynamoDB's")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
