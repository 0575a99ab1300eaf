"""What a consumer's function may do, and nothing else.

IAM has no permission for transactions: each write in one is checked as the plain write it is. The
condition on `dynamodb:EnclosingOperation` turns that round and refuses the plain write.
`ForAnyValue` is the form to use: `ForAllValues` is also true when the key is missing, which is what
a plain `PutItem` looks like. `ConditionCheckItem` stands alone, without the condition, because it
exists in transactions only.
"""

from collections.abc import Mapping, Sequence

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

ONLY_IN_TRANSACTIONS = {
    "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
}

TABLE_ACTIONS: Mapping[str, Sequence[str]] = {
    "WriteInTransactions": ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"),
    "CheckInTransactions": ("dynamodb:ConditionCheckItem",),
    "Read": ("dynamodb:GetItem", "dynamodb:BatchGetItem"),
}
QUEUE_ACTIONS = (
    *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),  # the mapping's
    "sqs:ChangeMessageVisibility",  # the function's own, to delay a retry
)


def function_role(
    scope: Construct,
    *,
    tables: Sequence[dynamodb.ITable],
    queue: sqs.IQueue,
    dead_letters: sqs.IQueue,
    log_group: logs.ILogGroup,
) -> iam.Role:
    """Return the role of the function that reads `queue` and writes `tables`.

    Its policy is inline, so that the role never exists without it: an event source mapping is
    refused when it comes before the rights to read the queue.
    """
    arns = [table.table_arn for table in tables]
    statements = [
        *(_allow(sid, actions, *arns) for sid, actions in TABLE_ACTIONS.items()),
        _allow("ConsumeOwnQueue", QUEUE_ACTIONS, queue.queue_arn),
        _allow("Quarantine", ["sqs:SendMessage"], dead_letters.queue_arn),
        _allow("Log", ["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn),
    ]
    return iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={"Consumer": iam.PolicyDocument(statements=statements)},
    )


def _allow(sid: str, actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
    # Statements with a name are never merged: the condition stays with the writes alone.
    conditions = ONLY_IN_TRANSACTIONS if sid == "WriteInTransactions" else None
    return iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=list(resources), conditions=conditions
    )
