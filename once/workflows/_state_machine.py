"""State machine: starts a Step Functions execution by name.

Step Functions returns the running execution that has the name and an equal input. For any other
execution with the name, including one with an equal input that has ended, it answers
`ExecutionAlreadyExists`; the input of that execution then decides. Source: StartExecution in the
API reference of Step Functions.
"""

from functools import cache
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from once.effects.declaration import Call
from once.errors import EffectUnknown, KeyConflict, Unanswered
from once.workflows._aws_answers import ONE_ATTEMPT, code_of, meaning_of, region_of
from once.workflows._execution_name import execution_name


def start_execution(machine: str, call: Call) -> str:
    """Return the ARN of the execution that this call or an earlier attempt has started.

    Args:
        machine: the ARN of a standard state machine, or of a version or an alias of one.
        call: its key gives the name; its request is the input.

    Raises:
        KeyConflict: the name belongs to an execution with another input.
        NotDone: nothing was started; a later attempt may succeed.
        PermanentError: nothing was started, and this input can never be accepted.
        EffectUnknown: an execution was started that its name does not identify.
        Exception: it is unknown whether an execution was started.
    """
    name, text = execution_name(call.key), call.request.decode()
    client = _client(region_of(machine))
    try:
        answer = client.start_execution(stateMachineArn=machine, name=name, input=text)
    except (ClientError, BotoCoreError) as error:
        if code_of(error) != "ExecutionAlreadyExists":
            raise meaning_of(error, machine) from error
    else:
        return _started(str(answer["executionArn"]), machine, name)
    return _existing(client, _execution_arn(machine, name), text)


def _started(execution: str, machine: str, name: str) -> str:
    if execution == _execution_arn(machine, name):
        return execution
    raise EffectUnknown(
        f"{machine} has started {execution}, which the name {name} does not identify: another "
        "attempt would start a second one. Use a standard state machine, and settle the effect"
    )


def _existing(client: Any, execution: str, text: str) -> str:
    """Return the ARN of the execution that has the name, if its input is equal."""
    found = client.describe_execution(executionArn=execution)
    if "input" not in found:
        raise Unanswered(f"Step Functions does not show the input of {execution}")
    if found["input"] != text:
        raise KeyConflict(f"{execution} was started with another input")
    return execution


def _execution_arn(machine: str, name: str) -> str:
    """Return the ARN of an execution, which names no version or alias of its state machine."""
    parts = machine.split(":")
    return ":".join([*parts[:5], "execution", parts[6], name])


@cache
def _client(region: str) -> Any:
    return boto3.client("stepfunctions", region, config=ONE_ATTEMPT)
