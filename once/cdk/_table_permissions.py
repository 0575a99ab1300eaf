"""Permissions of a consumer's function on its tables.

IAM has no permission for transactions: it checks each write in a transaction as a plain write. The
condition on `dynamodb:EnclosingOperation` allows writes inside a transaction only. It needs
`ForAnyValue`: `ForAllValues` is also true if the key is missing, as in a plain `PutItem`.
`ConditionCheckItem` has no condition, because it exists in transactions only.

All consumers share the dedup table. Each may only access records whose key begins with its own
identity, because a record decides how its consumer treats an event, and which events are published
for it. No function deletes a record, and only consumers with effects update one.

A consumer with item dedup has no access to the dedup table. Where each message commits alone, its
writes need no transaction. They must name a dedup record of the consumer instead, so that IAM
denies a handler's own write without one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam

from once.cdk.props import ConsumerProps
from once.settings import ITEM_RECORD_PREFIX, Dedup

ONLY_IN_TRANSACTIONS = {
    "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
}

PUT, UPDATE = "dynamodb:PutItem", "dynamodb:UpdateItem"
WRITES = (PUT, UPDATE, "dynamodb:DeleteItem")
LOOK_UP = "dynamodb:BatchGetItem"
READS = ("dynamodb:GetItem", LOOK_UP)


def state_statements(
    consumer: ConsumerProps, dedup_table: str, tables: Sequence[str], *, local: bool
) -> list[iam.PolicyStatement]:
    """Return the statements on the dedup table and on the business tables, given by their ARNs."""
    if consumer.dedup is Dedup.ITEM:
        return _item_statements(consumer, tables, local=local)
    writes = [PUT, *([UPDATE] if consumer.has_effects else [])]
    records = record_statements(consumer.identity, dedup_table, writes, local=local)
    return [*records, *_table_statements(tables)]


def record_statements(
    identity: str, arn: str, writes: Sequence[str] = (PUT,), *, local: bool
) -> list[iam.PolicyStatement]:
    """Return the statements on the dedup records of an identity; `arn` is that of their table."""
    own = _own_records(identity, local=local)
    conditions = {**ONLY_IN_TRANSACTIONS, **own}
    return [
        allow("WriteOwnRecordsInTransactions", writes, arn, conditions=conditions),
        allow("ReadOwnRecords", [LOOK_UP], arn, conditions=own),
    ]


def _own_records(consumer: str, *, local: bool) -> dict[str, Any]:
    own = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{consumer}#*"]}}
    if local:  # the embedded AWS never has the key: `Null` would deny every request
        return own
    # `ForAllValues` is true if the key is missing: `Null` requires the key.
    return {**own, "Null": {"dynamodb:LeadingKeys": "false"}}


def _table_statements(arns: Sequence[str]) -> list[iam.PolicyStatement]:
    if not arns:
        return []
    return [
        allow("WriteInTransactions", WRITES, *arns, conditions=ONLY_IN_TRANSACTIONS),
        allow("CheckInTransactions", ["dynamodb:ConditionCheckItem"], *arns),
        allow("Read", READS, *arns),
    ]


def _item_statements(
    consumer: ConsumerProps, arns: Sequence[str], *, local: bool
) -> list[iam.PolicyStatement]:
    writes = [PUT, UPDATE]  # a deletion would remove the records on the item
    if consumer.group_size > 1:
        write = allow("WriteInTransactions", writes, *arns, conditions=ONLY_IN_TRANSACTIONS)
    else:
        names = [f"{ITEM_RECORD_PREFIX}{consumer.identity}#*"]
        with_record = {"ForAnyValue:StringLike": {"dynamodb:Attributes": names}}
        # The embedded AWS has no such key for writes.
        write = allow("WriteWithRecord", writes, *arns, conditions=None if local else with_record)
    return [write, allow("Read", READS, *arns)]


def allow(
    sid: str,
    actions: Sequence[str],
    *resources: str,
    conditions: Mapping[str, Any] | None = None,
) -> iam.PolicyStatement:
    """Return a statement that allows actions."""
    # Statements with a name are never merged: a condition stays with its own actions.
    return iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=list(resources), conditions=conditions
    )
