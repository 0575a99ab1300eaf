"""The item of an order, the same for every contender."""

from collections.abc import Mapping
from typing import Any

from boto3.dynamodb.types import TypeSerializer

_SERIALIZER = TypeSerializer()


def order_item(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of an order, from the data of its event."""
    lines = data["lines"]
    return {
        "order_id": data["order_id"],
        "customer_id": data["customer_id"],
        "currency": data["currency"],
        "lines": lines,
        "total": sum(line["quantity"] * line["unit_price"] for line in lines),
    }


def serialized(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of an order in DynamoDB's own JSON form."""
    return {name: _SERIALIZER.serialize(value) for name, value in order_item(data).items()}
