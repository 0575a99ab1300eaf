"""Look-up of dedup records by their keys."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.commit.dedup_record import READ, record_key
from once.error_text import summary_of
from once.errors import OutcomeUnknown
from once.schema import Record

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]

_NAMES = {f"#{name}": name for name in READ}
_ROUNDS = 3
"""Attempts at the keys that DynamoDB returns as unprocessed for lack of capacity."""


def look_up(client: "DynamoDBClient", table: str, pks: Sequence[str]) -> dict[str, Item]:
    """Read dedup records consistently, in one request.

    Args:
        client: a DynamoDB client.
        table: the table of dedup records.
        pks: their partition keys, at most a hundred.

    Returns:
        The records in DynamoDB's own JSON form, by partition key. A key without a record is left
        out.

    Raises:
        OutcomeUnknown: DynamoDB did not answer for every key.
    """
    # DynamoDB refuses a request that names one key twice.
    keys = [record_key(pk) for pk in dict.fromkeys(pks)]
    found = read_items(client, table, keys, _NAMES) if keys else ()
    return {item[Record.PK]["S"]: item for item in found}


def read_items(
    client: "DynamoDBClient", table: str, keys: list[Any], names: Mapping[str, str]
) -> Iterator[Item]:
    """Yield the existing items of these keys, read consistently.

    Args:
        client: a DynamoDB client.
        table: the table.
        keys: their primary keys, one to a hundred, all different.
        names: the attributes to read, by their placeholders.

    Raises:
        OutcomeUnknown: DynamoDB did not answer for every key.
    """
    request: Any = {
        table: {
            "Keys": keys,
            "ConsistentRead": True,
            "ProjectionExpression": ",".join(names),
            "ExpressionAttributeNames": names,
        }
    }
    for _ in range(_ROUNDS):
        try:
            answer: Any = client.batch_get_item(RequestItems=request)
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            raise OutcomeUnknown(f"no answer, and no record: {summary_of(error)}") from None
        yield from answer["Responses"].get(table, [])
        if not (request := answer.get("UnprocessedKeys")):
            return
    raise OutcomeUnknown("no answer, and DynamoDB had no capacity to read the records back")
