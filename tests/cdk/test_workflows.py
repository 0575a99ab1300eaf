"""Consumers that start workflows: permissions, variables, and faults with their remedies."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn

from once.cdk import (
    ConsumerProps,
    DedupTable,
    DurableFunctionProps,
    IdempotentConsumer,
    StateMachineProps,
)
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.deployment_options import DeploymentConfig
from stacks.folders import ROOT
from tests.stacks.cloud import Json, resources_of

MACHINE = "arn:aws:states:eu-west-1:111122223333:stateMachine:fulfil"
FUNCTION = "arn:aws:lambda:eu-west-1:111122223333:function:bill:live"
EXECUTIONS = "arn:aws:states:eu-west-1:111122223333:execution:fulfil:once-*"
FOLDER = ROOT / "tests" / "wheel" / "app" / "functions" / "tickets"


def consumer(*starts: Any, effect_timeout_seconds: int = 4) -> ConsumerProps:
    return ConsumerProps(
        "tickets",
        external=("seat.booked",),
        effect_timeout_seconds=effect_timeout_seconds,
        batch_size=1,
        starts=starts,
        folder=FOLDER,
    )


def function_and_policy(stack: cdk.Stack, *starts: Any) -> tuple[Json, Json]:
    """Return the variables and the statements of a consumer's function."""
    IdempotentConsumer(stack, consumer(*starts), dedup_table=DedupTable(stack, "dedup"))
    functions = resources_of(stack, "AWS::Lambda::Function")
    environments = [each.get("Environment", {}).get("Variables", {}) for each in functions]
    [variables] = [each for each in environments if "ONCE_SETTINGS" in each]
    return variables, {
        statement["Sid"]: statement
        for role in resources_of(stack, "AWS::IAM::Role")
        for policy in role.get("Policies", [])
        for statement in policy["PolicyDocument"]["Statement"]
    }


def test_it_may_start_its_workflows_and_read_what_it_started(stack: cdk.Stack) -> None:
    starts = (StateMachineProps("fulfil", MACHINE), DurableFunctionProps("bill", FUNCTION, 7))
    variables, allowed = function_and_policy(stack, *starts)
    assert (variables["WORKFLOW_FULFIL"], variables["WORKFLOW_BILL"]) == (MACHINE, FUNCTION)
    assert variables["ONCE_RETENTION_DAYS_BILL"] == "7"
    rights = {sid: (each["Action"], each["Resource"]) for sid, each in allowed.items()}
    assert rights["StartExecutions"] == ("states:StartExecution", MACHINE)
    assert rights["ReadOwnExecutions"] == ("states:DescribeExecution", EXECUTIONS)
    assert rights["StartDurableExecutions"] == ("lambda:InvokeFunction", FUNCTION)


def test_a_start_through_an_alias_is_allowed_on_the_machine(stack: cdk.Stack) -> None:
    machine = f"{MACHINE}:live"
    variables, allowed = function_and_policy(stack, StateMachineProps("fulfil", machine))
    assert variables["WORKFLOW_FULFIL"] == machine
    # Step Functions authorizes by the ARN of the machine, and compares the qualifier apart.
    start = allowed["StartQualifiedExecutions1"]
    assert start["Resource"] == MACHINE
    only = {"states:StateMachineQualifier": "live"}
    assert start["Condition"] == {"ForAnyValue:StringEquals": only}
    assert allowed["ReadOwnExecutions"]["Resource"] == EXECUTIONS


def state_machine(stack: cdk.Stack, **more: Any) -> sfn.StateMachine:
    body = sfn.DefinitionBody.from_chainable(sfn.Pass(stack, "Pass"))
    return sfn.StateMachine(stack, "Machine", definition_body=body, **more)


def alias(stack: cdk.Stack, **more: Any) -> lambda_.Alias:
    function = lambda_.Function(
        stack,
        "Bill",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): pass"),
        **more,
    )
    return lambda_.Alias(stack, "Live", alias_name="live", version=function.current_version)


def durable() -> lambda_.DurableConfig:
    return lambda_.DurableConfig(execution_timeout=cdk.Duration.days(1))


def test_workflows_of_the_same_app_are_named_by_their_references(stack: cdk.Stack) -> None:
    machine, function = state_machine(stack), alias(stack, durable_config=durable())
    _, allowed = function_and_policy(
        stack,
        StateMachineProps("fulfil", machine.state_machine_arn),
        DurableFunctionProps("bill", function.function_arn),
    )
    reference = stack.resolve(machine.state_machine_arn)
    assert allowed["StartExecutions"]["Resource"] == reference
    assert allowed["StartDurableExecutions"]["Resource"] == stack.resolve(function.function_arn)
    *_, before, name, pattern = allowed["ReadOwnExecutions"]["Resource"]["Fn::Join"][1]
    assert (before, pattern) == (":execution:", ":once-*")
    assert name == {"Fn::Select": [6, {"Fn::Split": [":", reference]}]}


def test_an_alias_of_the_same_app_is_allowed_on_its_machine(stack: cdk.Stack) -> None:
    version = sfn.CfnStateMachineVersion(
        stack, "Version", state_machine_arn=state_machine(stack).state_machine_arn
    )
    _, allowed = function_and_policy(stack, StateMachineProps("fulfil", version.attr_arn))
    reference = stack.resolve(version.attr_arn)
    parts = [{"Fn::Select": [n, {"Fn::Split": [":", reference]}]} for n in range(8)]
    start = allowed["StartQualifiedExecutions1"]
    assert start["Resource"] == {"Fn::Join": [":", parts[:7]]}
    only = {"states:StateMachineQualifier": parts[7]}
    assert start["Condition"] == {"ForAnyValue:StringEquals": only}


def faults(*starts: Any, **more: Any) -> list[str]:
    return list(consumer_props_faults(consumer(*starts, **more), DeploymentConfig()))


def test_a_workflow_that_can_be_started_has_no_fault() -> None:
    for workflow in (
        StateMachineProps("fulfil", MACHINE),
        StateMachineProps("fulfil", f"{MACHINE}:7"),
        DurableFunctionProps("bill", FUNCTION),
    ):
        assert faults(workflow) == []


@pytest.mark.parametrize(
    ("workflow", "mistake", "remedy"),
    [
        (StateMachineProps("Fulfil", MACHINE), "'Fulfil' makes no variable", "lower-case"),
        (StateMachineProps("fulfil", FUNCTION), "arn='arn:aws:lambda", "ARN of a state machine"),
        (StateMachineProps("fulfil", "fulfil"), "arn='fulfil'", "ARN of a state machine"),
        (DurableFunctionProps("bill", MACHINE), "arn='arn:aws:states", "a version or an alias"),
        (DurableFunctionProps("bill", FUNCTION[:-5]), "function:bill'", "a version or an alias"),
        (DurableFunctionProps("bill", FUNCTION, 91), "retention_days=91", "choose 1 to 90"),
        ("fulfil", "starts=('fulfil',)", "give a tuple of StateMachineProps"),
        (StateMachineProps("fulfil", None), "starts=", "give a tuple"),  # type: ignore[arg-type]
    ],
)
def test_a_workflow_that_cannot_be_started_is_refused(
    workflow: Any, mistake: str, remedy: str
) -> None:
    (fault,) = faults(workflow)
    assert mistake in fault
    assert remedy in fault


def test_two_workflows_need_two_names_and_time_for_a_start() -> None:
    twice = (StateMachineProps("fulfil", MACHINE), DurableFunctionProps("fulfil", FUNCTION))
    name, seconds = faults(*twice, effect_timeout_seconds=3)
    assert "starts has 'fulfil' twice" in name
    assert "effect_timeout_seconds=3 is too short to start a workflow; raise it to 4" in seconds


def express(stack: cdk.Stack) -> StateMachineProps:
    machine = state_machine(stack, state_machine_type=sfn.StateMachineType.EXPRESS)
    return StateMachineProps("fulfil", machine.state_machine_arn)


def plain(stack: cdk.Stack) -> DurableFunctionProps:
    return DurableFunctionProps("bill", alias(stack).function_arn)


def unqualified(stack: cdk.Stack) -> DurableFunctionProps:
    function = alias(stack, durable_config=durable()).version.lambda_
    return DurableFunctionProps("bill", function.function_arn)


def forgetful(stack: cdk.Stack) -> DurableFunctionProps:
    config = lambda_.DurableConfig(
        execution_timeout=cdk.Duration.days(1), retention_period=cdk.Duration.days(13)
    )
    return DurableFunctionProps("bill", alias(stack, durable_config=config).function_arn)


@pytest.mark.parametrize(
    ("make", "mistake"),
    [
        (express, "'fulfil' is an express state machine"),
        (plain, "'bill' is no durable function"),
        (forgetful, "'bill' has retention_days=14, and its function keeps an execution for 13"),
        (unqualified, "'bill' is the ARN of a function without a version"),
    ],
)
def test_a_workflow_of_the_same_app_that_would_start_twice_is_refused(
    stack: cdk.Stack, make: Any, mistake: str
) -> None:
    (fault,) = faults(make(stack))
    assert mistake in fault
