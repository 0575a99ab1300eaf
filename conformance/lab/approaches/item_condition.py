"""A condition on the item itself: the order's composite key is the claim, then the work.

Advised by: articles on DynamoDB's condition expressions, such as "Idempotent DynamoDB Writes with
Condition Expressions": model the item so that an event has one key, and put it with
`attribute_not_exists`.
Promises: one item for each event, without another table and without an expiry.
Leaves out: every other effect of the event. The condition protects one write of one item.
"""

import json
from typing import Any

from lab.approaches.checkout import ORDERS, charge, handler_of


def process(record: dict[str, Any]) -> None:
    """Store the order if it is new, charge the card, and add the charge to the order."""
    order = json.loads(record["body"])
    key = {"customer_id": order["customer_id"], "order_id": order["order_id"]}
    try:
        ORDERS.put_item(
            Item={**key, "amount": order["amount"]},
            ConditionExpression="attribute_not_exists(order_id)",
        )
    except ORDERS.meta.client.exceptions.ConditionalCheckFailedException:
        return  # a duplicate
    try:
        charge_id = charge(order["order_id"], order["amount"])
    except Exception:
        ORDERS.delete_item(Key=key)
        raise
    ORDERS.update_item(
        Key=key,
        UpdateExpression="SET charge_id = :charge_id",
        ExpressionAttributeValues={":charge_id": charge_id},
    )


lambda_handler = handler_of(process)
