"""Workflows: effects that start a Step Functions execution or a durable Lambda function once.

The name of the execution derives from the event's key, and its input is the request as the dedup
record keeps it. AWS starts no second execution under a name with an equal input, so a later attempt
returns the ARN of the first one:

    fulfil = state_machine(consumer, "fulfilment", Fulfilment)

    @consumer.handles("order.paid", OrderPaid)
    def begin(event: OrderPaid, tx: Transaction) -> None:
        tx.perform(fulfil, Fulfilment(event.order_id))

    @consumer.completes(fulfil)
    def begun(event: OrderPaid, execution: str, tx: Transaction) -> None:
        tx.put(FULFILMENTS, {"order_id": event.order_id, "execution": execution})

The function finds the ARN of the workflow in the variable `WORKFLOW_FULFILMENT`, which
`ConsumerProps(starts=…)` sets. A function that declares no workflow does not load this module.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
)

from once.effects.declaration import Call, Effect, EffectFunction, Policy
from once.errors import (
    EffectUnknown,
    KeyConflict,
    NotDone,
    PermanentError,
    RegistrationError,
    Unanswered,
)
from once.names import (
    EXECUTION_PREFIX,
    RETENTION_DAYS,
    Reason,
    retention_variable,
    workflow_variable,
)

if TYPE_CHECKING:
    from msgspec import Struct

_DAY = 24 * 60 * 60
_MARGIN = 60 * 60

_STEP_FUNCTIONS_DAYS = 90
"""Days for which Step Functions keeps a name after the execution has ended."""

_HASH_DIGITS = 56
"""With prefix, hyphen and two digits 64 characters, the longest name of a durable execution."""

# The effect ledger retries. Two requests end within the least timeout of an effect that starts one.
ONE_ATTEMPT = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})

_REFUSED_REQUEST = {
    *("InvalidExecutionInput", "InvalidName", "ValidationException"),
    *("InvalidRequestContentException", "RequestTooLargeException"),
    *("SerializedRequestEntityTooLargeException", "UnsupportedMediaTypeException"),
}
"""Codes of errors that each attempt with the same name and input would meet."""

_CLIENT_ERRORS = range(400, 500)


class DeclaresEffects(Protocol):
    """The part of a `Consumer` that a workflow needs."""

    name: str

    def effect(
        self, name: str, model: "type[Struct]", *, policy: Policy, key_lifetime_seconds: int = 0
    ) -> Callable[[EffectFunction], Effect[Any, Any]]: ...


def state_machine(consumer: DeclaresEffects, name: str, model: "type[Struct]") -> Effect[Any, Any]:
    """Return the effect that starts an execution of a Step Functions state machine.

    Its outcome is the ARN of the execution. If the name belongs to an execution with another input,
    the message is quarantined as `key-conflict`.

    Args:
        name: names the effect, and the state machine in `ConsumerProps(starts=…)`. The state
            machine must be a standard one: a name does not identify an express execution.
        model: a msgspec.Struct; the input of the execution.

    Raises:
        RegistrationError: the deployed function does not know the state machine.
    """
    return _workflow(consumer, name, model, _start_execution, _STEP_FUNCTIONS_DAYS)


def durable_function(
    consumer: DeclaresEffects, name: str, model: "type[Struct]"
) -> Effect[Any, Any]:
    """Return the effect that starts an execution of a durable Lambda function, asynchronously.

    Its outcome is the ARN of the durable execution. If the name belongs to an execution with
    another payload, the message is quarantined as `key-conflict`; after an attempt without an
    answer as `effect-unknown`, because that execution may be its own.

    Args:
        name: names the effect, and the function in `ConsumerProps(starts=…)`.
        model: a msgspec.Struct; the payload.

    Raises:
        RegistrationError: the deployed function does not know the durable function.
    """
    days = int(os.environ.get(retention_variable(name), RETENTION_DAYS))
    return _workflow(consumer, name, model, _start_durable_execution, days)


def _workflow(
    consumer: DeclaresEffects,
    name: str,
    model: "type[Struct]",
    start: Callable[[str, Call], str],
    kept_days: int,
) -> Effect[Any, Any]:
    variable = workflow_variable(name)
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ and variable not in os.environ:
        raise RegistrationError(
            [
                f"{consumer.name} starts the workflow {name!r}, which its function does not know; "
                f"add it to starts= of the declaration of {consumer.name!r} in the CDK app"
            ]
        )

    def start_once(_: Any, call: Call) -> str:
        if variable not in os.environ:
            raise NotDone(f"{variable} is not set; a test sets it to the ARN of the workflow")
        return start(os.environ[variable], call)

    seconds = kept_days * _DAY - _MARGIN
    declare = consumer.effect(name, model, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=seconds)
    return declare(start_once)


def execution_name(provider_key: str) -> str:
    """Return the name of the execution for a provider key: letters, digits and hyphens.

    It is `once-`, the first 56 digits of the key hash, and the number of the provider key. The
    effect's name is left out: an event has one effect.
    """
    _, key_hash, *_, number = provider_key.split("-")
    return f"{EXECUTION_PREFIX}{key_hash[:_HASH_DIGITS]}-{number}"


def _start_execution(machine: str, call: Call) -> str:
    """Return the ARN of the execution that this call or an earlier attempt has started.

    Step Functions returns the running execution that has the name and an equal input. For any other
    execution with the name, including one with an equal input that has ended, it answers
    `ExecutionAlreadyExists`; the input of that execution then decides. Source: StartExecution in
    the API reference of Step Functions.
    """
    name, text = execution_name(call.key), call.request.decode()
    expected = _execution_arn(machine, name)
    client = _client("stepfunctions", machine.split(":")[3])
    try:
        answer = client.start_execution(stateMachineArn=machine, name=name, input=text)
    except (ClientError, BotoCoreError) as error:
        if _code_of(error) != "ExecutionAlreadyExists":
            raise meaning_of(error, machine) from error
    else:
        if (started := str(answer["executionArn"])) == expected:
            return started
        raise EffectUnknown(
            f"{machine} has started {started}, which the name {name} does not identify: another "
            "attempt would start a second one. Use a standard state machine, and settle the effect"
        )
    found = client.describe_execution(executionArn=expected)
    if "input" not in found:
        raise Unanswered(f"Step Functions does not show the input of {expected}")
    if found["input"] != text:
        raise KeyConflict(f"{expected} was started with another input")
    return expected


def _execution_arn(machine: str, name: str) -> str:
    """Return the ARN of an execution, which names no version or alias of its state machine."""
    parts = machine.split(":")
    return ":".join([*parts[:5], "execution", parts[6], name])


class _NameTaken(PermanentError, reason=Reason.KEY_CONFLICT):
    """The name belongs to an execution with another payload, which Lambda does not show.

    This is no KeyConflict: after an attempt without an answer, the execution may be the effect's
    own, for example if an alias has moved since.
    """


def _start_durable_execution(function: str, call: Call) -> str:
    """Return the ARN of the durable execution that this call or an earlier attempt has started.

    Lambda returns the execution that has the name and an equal payload, running or ended, until its
    retention period is over. For another payload it answers
    `DurableExecutionAlreadyStartedException`. Source: "Idempotency" of durable functions in the
    Lambda developer guide.
    """
    name = execution_name(call.key)
    try:
        answer = _client("lambda", function.split(":")[3]).invoke(
            FunctionName=function,
            InvocationType="Event",
            DurableExecutionName=name,
            Payload=call.request,
        )
    except (ClientError, BotoCoreError) as error:
        if _code_of(error) != "DurableExecutionAlreadyStartedException":
            raise meaning_of(error, function) from error
        text = f"{function} has a durable execution {name} with another payload"
        raise _NameTaken(text) from error
    execution = str(answer.get("DurableExecutionArn", ""))
    if f"/durable-execution/{name}/" in execution:
        return execution
    raise EffectUnknown(
        f"{function} was invoked, and has started no durable execution {name}: another attempt "
        "would invoke it again. Give the function a DurableConfig, and settle the effect"
    )


def meaning_of(error: Exception, workflow: str) -> Exception:
    """Return the exception that tells the library whether a workflow was started.

    A PermanentError or NotDone if it certainly was not; the SDK's error itself if that is unknown.
    Missing rights, a missing workflow and a limit may pass, as a missing table may.
    """
    if isinstance(error, ConnectTimeoutError | EndpointConnectionError):
        return NotDone(f"AWS was not reached to start {workflow}")
    if not isinstance(error, ClientError):
        return error
    text = f"AWS refuses to start {workflow}: {_code_of(error)}"
    if _code_of(error) in _REFUSED_REQUEST:
        return PermanentError(text)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return NotDone(text) if status in _CLIENT_ERRORS else error


def _code_of(error: Exception) -> str:
    response: Any = error.response if isinstance(error, ClientError) else {}
    return str(response.get("Error", {}).get("Code", ""))


@cache
def _client(service: str, region: str) -> Any:
    return boto3.client(service, region, config=ONE_ATTEMPT)
