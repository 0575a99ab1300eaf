"""Permissions and variables of a function that starts workflows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aws_cdk import Arn, ArnFormat, Fn, Reference, Stack, Tokenization
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from once.cdk.nag import acknowledge_finding, as_referenced, name_in_findings
from once.cdk.props import DurableFunctionProps, StateMachineProps, WorkflowProps
from once.workflow_names import EXECUTION_PREFIX, retention_variable, workflow_variable

_MACHINE_PARTS = 7
"""Parts of a state machine's ARN, between colons. A version or an alias is one more."""
_QUALIFIED = (sfn.CfnStateMachineAlias, sfn.CfnStateMachineVersion)

_REASON = (
    "Step Functions has no permission for one execution: the prefix is that of the executions "
    "which consumers start, and the state machine is named."
)


def workflow_statements(
    scope: Construct, starts: Sequence[WorkflowProps]
) -> Iterator[iam.PolicyStatement]:
    """Yield the statements that allow to start workflows, and to read what they started."""
    machines = [each.arn for each in starts if isinstance(each, StateMachineProps)]
    functions = [each.arn for each in starts if isinstance(each, DurableFunctionProps)]
    if machines:
        executions = [_executions(scope, arn) for arn in machines]
        yield from _starts(machines)
        yield _allow("ReadOwnExecutions", "states:DescribeExecution", executions)
    if functions:
        yield _allow("StartDurableExecutions", "lambda:InvokeFunction", functions)


def _starts(machines: Sequence[str]) -> Iterator[iam.PolicyStatement]:
    """Yield the statements on state machines, and one more for each version or alias.

    Step Functions authorizes by the ARN of the state machine, and compares a version or an alias
    with a condition key (Developer Guide, "Authorization for versions and aliases").
    """
    pairs = [_machine_and_qualifier(arn) for arn in machines]
    if plain := [machine for machine, qualifier in pairs if qualifier is None]:
        yield _allow("StartExecutions", "states:StartExecution", plain)
    qualified = [pair for pair in pairs if pair[1] is not None]
    for number, (machine, qualifier) in enumerate(qualified, 1):
        only = {"ForAnyValue:StringEquals": {"states:StateMachineQualifier": qualifier}}
        sid = f"StartQualifiedExecutions{number}"
        yield _allow(sid, "states:StartExecution", [machine], conditions=only)


def _machine_and_qualifier(arn: str) -> tuple[str, str | None]:
    """Return the ARN of a state machine, and the version or alias that follows in `arn`."""
    parts = arn.split(":")
    if len(parts) > _MACHINE_PARTS:
        return ":".join(parts[:_MACHINE_PARTS]), parts[_MACHINE_PARTS]
    token = Tokenization.reverse_string(arn).first_token if len(parts) == 1 else None
    if not isinstance(token, Reference) or not isinstance(token.target, _QUALIFIED):
        return arn, None
    split = Fn.split(":", arn)
    machine = Fn.join(":", [Fn.select(number, split) for number in range(_MACHINE_PARTS)])
    return machine, Fn.select(_MACHINE_PARTS, split)


def acknowledge_executions(role: Construct, starts: Sequence[WorkflowProps]) -> None:
    """Accept the finding that the role may read more executions than one."""
    for each in starts:
        if isinstance(each, StateMachineProps):
            executions = name_in_findings(role, _executions(role, as_referenced(role, each.arn)))
            rule = f"AwsSolutions-IAM5[Resource::{executions}]"
            acknowledge_finding(role, rule, _REASON)


def workflow_variables(starts: Sequence[WorkflowProps]) -> dict[str, str]:
    """Return the variables in which the function finds ARNs and retention of its workflows."""
    functions = [each for each in starts if isinstance(each, DurableFunctionProps)]
    return {
        **{workflow_variable(each.name): each.arn for each in starts},
        **{retention_variable(each.name): str(each.retention_days) for each in functions},
    }


def _executions(scope: Construct, arn: str) -> str:
    """Return the ARN of the executions that consumers start, of any version of a machine."""
    parts = Arn.split(arn, ArnFormat.COLON_RESOURCE_NAME)
    # The resource name may end in a version or an alias, so it is not that of the machine.
    name = Fn.select(6, Fn.split(":", arn))
    return Stack.of(scope).format_arn(
        service="states",
        partition=parts.partition,
        region=parts.region,
        account=parts.account,
        resource="execution",
        resource_name=f"{name}:{EXECUTION_PREFIX}*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


def _allow(
    sid: str,
    action: str,
    resources: Sequence[str],
    conditions: Mapping[str, Any] | None = None,
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=sid, actions=[action], resources=list(resources), conditions=conditions
    )
