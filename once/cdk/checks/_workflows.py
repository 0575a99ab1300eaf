"""Checks of the workflows that a consumer starts. Each fault states its remedy.

An ARN that is a reference to a resource of the same app is checked by that resource.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from aws_cdk import Reference, Token, Tokenization
from aws_cdk import aws_lambda as lambda_

from once.cdk.props import ConsumerProps
from once.cdk.workflow_props import StateMachineProps, WorkflowProps
from once.schema import CONSUMER_NAME
from once.workflow_names import RETENTION_DAYS

START_SECONDS = 4
"""Longest duration of a start: two requests, each with a second to connect and one to answer."""

_RETENTION_DAYS = range(1, 91)
_MACHINE = re.compile(r"arn:[\w-]+:states:[\w-]+:\d{12}:stateMachine:[\w-]+(:[\w-]+)?")
_FUNCTION = re.compile(r"arn:[\w-]+:lambda:[\w-]+:\d{12}:function:[\w-]+:[\w-]+")


def workflow_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every fault of the workflows, without the consumer's name."""
    for name, count in Counter(each.name for each in consumer.starts).items():
        if not CONSUMER_NAME.fullmatch(name):
            yield (
                f"the workflow's name {name!r} makes no variable; use at most 40 lower-case "
                "letters, digits and underscores, a letter first"
            )
        if count > 1:
            yield f"starts has {name!r} twice; give each workflow a name of its own"
    for each in consumer.starts:
        yield from _arn_faults(each)
        days = getattr(each, "retention_days", 1)
        if days not in _RETENTION_DAYS:
            yield f"the workflow {each.name!r} has retention_days={days}; choose 1 to 90"
    if consumer.starts and consumer.effect_timeout_seconds < START_SECONDS:
        yield (
            f"effect_timeout_seconds={consumer.effect_timeout_seconds} is too short to start a "
            f"workflow; raise it to {START_SECONDS}: two requests of two seconds"
        )


def _arn_faults(workflow: WorkflowProps) -> Iterator[str]:
    if resource := _resource(workflow.arn):
        faults = (
            _machine_faults(resource)
            if isinstance(workflow, StateMachineProps)
            else _function_faults(resource, workflow.retention_days)
        )
        yield from (f"the workflow {workflow.name!r} {fault}" for fault in faults)
        return
    pattern, kind = (
        (_MACHINE, "a state machine")
        if isinstance(workflow, StateMachineProps)
        else (_FUNCTION, "a version or an alias of a function")
    )
    if not Token.is_unresolved(workflow.arn) and not pattern.fullmatch(workflow.arn):
        yield f"the workflow {workflow.name!r} has arn={workflow.arn!r}; give the ARN of {kind}"


def _machine_faults(resource: Any) -> Iterator[str]:
    if getattr(resource, "state_machine_type", None) == "EXPRESS":
        yield (
            "is an express state machine, whose executions are not identified by their name: a "
            "retry would start a second one; make it a standard one"
        )


def _function_faults(resource: Any, retention_days: int) -> Iterator[str]:
    if isinstance(resource, lambda_.CfnFunction):
        yield (
            "is the ARN of a function without a version, and a durable execution stays at one; "
            "give the ARN of an alias or a version"
        )
    function = _resource(getattr(resource, "function_name", ""))
    if not isinstance(function, lambda_.CfnFunction):
        return
    if function.durable_config is None:
        yield (
            "is no durable function: a retry would invoke it again; give the function a "
            "durable_config"
        )
    elif retention_days > (kept := _days_kept(function.durable_config)):
        yield (
            f"has retention_days={retention_days}, and its function keeps an execution for {kept} "
            "days: a retry after that would start a second one; give both the same number"
        )


def _days_kept(durable_config: Any) -> int:
    return int(getattr(durable_config, "retention_period_in_days", None) or RETENTION_DAYS)


def _resource(text: str) -> Any:
    """Return the resource that a text refers to; None for any other text."""
    token = Tokenization.reverse_string(text).first_token
    return token.target if isinstance(token, Reference) else None
