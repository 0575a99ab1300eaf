"""Encoded entries: a TransactWriteItems request whose entries are JSON before the SDK sees them.

The SDK's serializer compares every value of every item with the service model. For a group commit
this takes longer than all other work of the SDK. The entries of a commit are in DynamoDB's own JSON
form already, so they are encoded directly. Two of botocore's documented events make room for them:
before the serializer runs, the entries are set aside; before the request is signed, they are put
back. The SDK still signs, sends and retries the request.

A client that accepts encoded entries accepts plain ones as well: `EffectLedger` sends those.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from once.errors import InvalidWrite

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ITEMS = "TransactItems"
_SET_ASIDE = "once_items"


def accept_encoded_entries(client: "DynamoDBClient") -> None:
    """Let a client take encoded entries of TransactItems; a second call changes nothing."""
    events: Any = client.meta.events
    for moment, hook in (("provide-client-params", _set_aside), ("before-call", _put_back)):
        events.register(f"{moment}.dynamodb.TransactWriteItems", hook, unique_id=hook.__name__)


def encoded(entries: Iterable[Any]) -> list[msgspec.Raw]:
    """Return entries of TransactItems, each as JSON.

    Raises:
        InvalidWrite: an entry cannot be JSON, for example because a condition is not text.
    """
    try:
        return [msgspec.Raw(_ENCODER.encode(entry)) for entry in entries]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(f"a write that cannot be sent to DynamoDB: {error}") from None


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
