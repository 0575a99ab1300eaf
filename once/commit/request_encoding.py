"""The body of a transaction, as it goes over the wire.

The SDK's serialiser walks every value of every item along the service's model, which costs more
than all else it does for a group. Values in DynamoDB's own JSON form need no such walk: they are
encoded as they are. Signing, HTTP and retries stay the SDK's.
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
        InvalidWrite: something in it is not JSON, such as a condition that is no text.
    """
    try:
        return [msgspec.Raw(_ENCODER.encode(entry)) for entry in entries]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(f"a write that cannot be sent to DynamoDB: {error}") from None


def write_bodies(client: "DynamoDBClient") -> None:
    """Let a client take entries for TransactItems that are encoded already, or plain ones."""
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
    """Text and bytes of a class of their own are text and bytes all the same."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} is no value of DynamoDB's")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
