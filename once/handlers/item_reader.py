"""Item reader: reads items of business tables for `Transaction.get`."""

from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer
from botocore.exceptions import ClientError

from once.errors import RequestRefused
from once.handlers.actions import Item, serialize
from once.settings import TableSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_DESERIALIZER = TypeDeserializer()


class ItemReader:
    """Reads items from DynamoDB.

    Args:
        client: a DynamoDB client.
    """

    def __init__(self, client: "DynamoDBClient") -> None:
        self._client = client

    def read(self, table: TableSettings, key: Item) -> dict[str, Any] | None:
        """Return an item, read consistently; None if it does not exist.

        Raises:
            RequestRefused: the table is missing.
            botocore.exceptions.ClientError, BotoCoreError: DynamoDB did not return the item.
        """
        try:
            answer = self._client.get_item(
                TableName=table.name, Key=serialize(key), ConsistentRead=True
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            # A deployment that is under way, or incomplete: no message causes it.
            raise RequestRefused(f"DynamoDB does not find the table {table.name}") from None
        if "Item" not in answer:
            return None
        return {name: _DESERIALIZER.deserialize(v) for name, v in answer["Item"].items()}
