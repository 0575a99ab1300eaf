"""A stack that is too large for CloudFormation is refused with the number of consumers that fit."""

import aws_cdk as cdk
import pytest
from constructs import Construct

from once.cdk import stack_size_faults
from once.cdk.checks import constructs
from once.cdk.checks.constructs import CONSTRUCT_METADATA


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> cdk.Stack:
    """A stack under quotas that are as small as a test's stacks."""
    assert (constructs.RESOURCES, constructs.OUTPUTS) == (500, 200)
    monkeypatch.setattr(constructs, "RESOURCES", 25)
    monkeypatch.setattr(constructs, "OUTPUTS", 2)
    return cdk.Stack(cdk.App(), "service")


def fill(scope: Construct, resources: int, outputs: int = 0) -> None:
    for number in range(resources):
        cdk.CfnResource(scope, f"r{number}", type="AWS::CloudFormation::WaitConditionHandle")
    for number in range(outputs):
        cdk.CfnOutput(scope, f"o{number}", value="x")


def faults(stack: cdk.Stack) -> list[str]:
    return list(stack_size_faults(stack.node.root.node.find_all()))


def test_a_stack_over_both_quotas_has_two_faults(stack: cdk.Stack) -> None:
    fill(stack, 25, 2)
    assert faults(stack) == []
    fill(Construct(stack, "more"), 1, 1)
    assert faults(stack) == [
        "service: 26 resources, and CloudFormation takes 25; move some of them to another stack",
        "service: 3 outputs, and CloudFormation takes 2; move some of them to another stack",
    ]


def test_a_fault_says_how_many_consumers_fit(stack: cdk.Stack) -> None:
    fill(stack, 2)
    for number in range(4):
        consumer = Construct(stack, f"consumer{number}")
        consumer.node.add_metadata(CONSTRUCT_METADATA, consumer.node.id)
        fill(consumer, 6)
    [fault] = faults(stack)
    assert fault.startswith("service: 26 resources, and CloudFormation takes 25; ")
    assert "of its 4 consumers about 3 fit: move the others" in fault
