"""Durable function: starts a durable execution of a Lambda function by name.

Lambda returns the execution that has the name and an equal payload, running or ended, until its
retention period is over. For another payload it answers `DurableExecutionAlreadyStartedException`.
Source: "Idempotency" of durable functions in the Lambda developer guide.
"""

from functools import cache
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from once.effects.declaration import Call
from once.errors import EffectUnknown, PermanentError
from once.schema import Reason
from once.workflows._aws_answers import ONE_ATTEMPT, code_of, meaning_of, region_of
from once.workflows._execution_name import execution_name


class _NameTaken(PermanentError):
    """The name belongs to an execution with another payload.

    This is no KeyConflict: Lambda does not show that payload. After an attempt without an answer,
    the execution may be the effect's own, for example if an alias has moved since.
    """

    reason = Reason.KEY_CONFLICT


def start_durable_execution(function: str, call: Call) -> str:
    """Return the ARN of the durable execution that this call or an earlier attempt has started.

    Args:
        function: the ARN of a version or an alias of a durable function.
        call: its key gives the name; its request is the payload.

    Raises:
        PermanentError: nothing was started, and this payload can never be accepted.
        NotDone: nothing was started; a later attempt may succeed.
        EffectUnknown: the function was invoked, and no durable execution has the name.
        Exception: it is unknown whether an execution was started.
    """
    name = execution_name(call.key)
    try:
        answer = _client(region_of(function)).invoke(
            FunctionName=function,
            InvocationType="Event",
            DurableExecutionName=name,
            Payload=call.request,
        )
    except (ClientError, BotoCoreError) as error:
        if code_of(error) != "DurableExecutionAlreadyStartedException":
            raise meaning_of(error, function) from error
        text = f"{function} has a durable execution {name} with another payload"
        raise _NameTaken(text) from error
    return _started(str(answer.get("DurableExecutionArn", "")), function, name)


def _started(execution: str, function: str, name: str) -> str:
    if f"/durable-execution/{name}/" in execution:
        return execution
    raise EffectUnknown(
        f"{function} was invoked, and has started no durable execution {name}: another attempt "
        "would invoke it again. Give the function a DurableConfig, and settle the effect"
    )


@cache
def _client(region: str) -> Any:
    return boto3.client("lambda", region, config=ONE_ATTEMPT)
