"""Stock: writes the articles that sample orders reserve."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from once.ops.aws.clients import THREADS, client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def stock_articles(table: str, stock: Mapping[str, int], done: Callable[[], object]) -> None:
    """Write new articles; existing ones keep their stock.

    Args:
        table: the stock table's physical name.
        stock: available quantity by SKU.
        done: called after each article.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: DynamoDB refused a write.
    """
    dynamodb: DynamoDBClient = client("dynamodb")

    def put(article: tuple[str, int]) -> None:
        sku, available = article
        _put_new(dynamodb, table, sku, available)

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(put, stock.items()):
            done()


def _put_new(dynamodb: "DynamoDBClient", table: str, sku: str, available: int) -> None:
    try:
        dynamodb.put_item(
            TableName=table,
            Item={"sku": {"S": sku}, "available": {"N": str(available)}},
            ConditionExpression="attribute_not_exists(sku)",
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
