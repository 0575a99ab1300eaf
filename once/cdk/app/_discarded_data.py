"""Data of a deployment that may go: everything is deleted with its stack."""

from aws_cdk import RemovalPolicies, Stack
from aws_cdk import aws_dynamodb as dynamodb


def discard_data(stack: Stack) -> None:
    """Delete every resource with the stack. A bucket with objects in it must be emptied first."""
    RemovalPolicies.of(stack).destroy()
    for each in stack.node.find_all():
        if isinstance(each, dynamodb.CfnTable):
            each.deletion_protection_enabled = False
