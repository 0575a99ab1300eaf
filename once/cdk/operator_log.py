"""Operator log: the log group in which every change that an operator makes is written."""

from aws_cdk import CfnOutput, RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from once.cdk.customer_keys import CustomerKey, imported_key
from once.schema import StackOutput


class OperatorLog(logs.LogGroup):
    """The log group of the operator's command line: retained, kept for a year, with its output.

    The command line changes nothing while it cannot write there. Its name is generated, so that a
    retained log group does not stand in the way of the next deployment.

    Args:
        scope: the stack.
        construct_id: makes the logical id. Under another id CloudFormation creates an empty one.
        key: the customer managed key that encrypts it; by default a key of CloudWatch.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, key: CustomerKey | None = None
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            encryption_key=imported_key(scope, key),
            retention=logs.RetentionDays.ONE_YEAR,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        CfnOutput(scope, StackOutput.OPERATOR_LOG, value=self.log_group_name)
