"""Permissions and variables of a function that starts workflows."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from aws_cdk import Arn, ArnFormat, Fn, Reference, Stack, Tokenization
from aws_cdk import aws_iam as iam
from constructs import Construct

from once.cdk.nag import acknowledge_finding
from once.cdk.workflow_props import DurableFunctionProps, StateMachineProps, WorkflowProps
from once.workflow_names import EXECUTION_PREFIX, retention_variable, workflow_variable

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
        yield _allow("StartExecutions", "states:StartExecution", machines)
        yield _allow("ReadOwnExecutions", "states:DescribeExecution", executions)
    if functions:
        yield _allow("StartDurableExecutions", "lambda:InvokeFunction", functions)


def acknowledge_executions(role: Construct, starts: Sequence[WorkflowProps]) -> None:
    """Accept the finding that the role may read more executions than one."""
    for each in starts:
        if isinstance(each, StateMachineProps):
            executions = Stack.of(role).resolve(_executions(role, each.arn))
            rule = f"AwsSolutions-IAM5[Resource::{_in_findings(executions)}]"
            acknowledge_finding(role, rule, _REASON)


def workflow_variables(starts: Sequence[WorkflowProps]) -> dict[str, str]:
    """Return the variables in which the function finds ARNs and retention of its workflows."""
    functions = [each for each in starts if isinstance(each, DurableFunctionProps)]
    return {
        **{workflow_variable(each.name): each.arn for each in starts},
        **{retention_variable(each.name): str(each.retention_days) for each in functions},
    }


def _executions(scope: Construct, machine: str) -> str:
    """Return the ARN of the executions that consumers start, of any version of a machine."""
    arn = _from_here(scope, machine)
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


def _from_here(scope: Construct, arn: str) -> str:
    """Return an ARN as the stack of `scope` refers to it: if another stack has it, by its export.

    CDK makes the same export later; findings are named before that.
    """
    token = Tokenization.reverse_string(arn).first_token
    owner = Stack.of(token.target) if isinstance(token, Reference) else Stack.of(scope)
    return arn if owner.node.path == Stack.of(scope).node.path else owner.export_value(arn)


def _in_findings(arn: Any) -> str:
    """Return how findings name a resolved ARN: intrinsic functions in it as JSON."""
    parts = arn["Fn::Join"][1] if isinstance(arn, dict) else [arn]
    return "".join(
        part if isinstance(part, str) else json.dumps(part, separators=(",", ":")) for part in parts
    )


def _allow(sid: str, action: str, resources: Sequence[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(sid=sid, actions=[action], resources=list(resources))
