"""A stack that is too large for CloudFormation is refused with the number of consumers that fit."""

import aws_cdk as cdk
import pytest
from constructs import Construct

from once.cdk import stack_size_faults
from once.cdk.checks.constructs import CONSTRUCT_METADATA


@pytest.fixture
def stack() -> cdk.Stack:
    return cdk.Stack(cdk.App(), "service")


def fill(scope: Construct, resources: int, outputs: int = 0) -> None:
    for number in range(resources):
        cdk.CfnResource(scope, f"r{number}", type="AWS::CloudFormation::WaitConditionHandle")
    for number in range(outputs):
        cdk.CfnOutput(scope, f"o{number}", value="x")


def faults(stack: cdk.Stack) -> list[str]:
    return list(stack_size_faults(stack.node.root.node.find_all()))


def test_a_stack_over_both_quotas_has_two_faults(stack: cdk.Stack) -> None:
    fill(stack, 500, 200)
    assert faults(stack) == []
    cdk.CfnResource(stack, "one more", type="AWS::CloudFormation::WaitConditionHandle")
    cdk.CfnOutput(stack, "another", value="x")
    assert faults(stack) == [
        "service: 501 resources, and CloudFormation takes 500; move some of them to another stack",
        "service: 201 outputs, and CloudFormation takes 200; move some of them to another stack",
    ]


def test_a_fault_says_how_many_consumers_fit(stack: cdk.Stack) -> None:
    fill(stack, 40)
    for number in range(4):
        consumer = Construct(stack, f"consumer{number}")
        consumer.node.add_metadata(CONSTRUCT_METADATA, consumer.node.id)
        fill(consumer, 120)
    [fault] = faults(stack)
    assert fault.startswith("service: 520 resources, and CloudFormation takes 500; ")
    assert "of its 4 consumers about 3 fit: move the others" in fault
