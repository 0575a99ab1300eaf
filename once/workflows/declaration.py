"""Workflow declarations: the effects that start an execution once for each event.

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
`ConsumerProps(starts=…)` sets.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from once.effects.declaration import Call, Effect, Policy
from once.errors import NotDone, RegistrationError
from once.workflow_names import RETENTION_DAYS, retention_variable, workflow_variable
from once.workflows._durable_function import start_durable_execution
from once.workflows._state_machine import start_execution

if TYPE_CHECKING:
    from msgspec import Struct

    from once.consumer import Consumer

_DAY = 24 * 60 * 60
_MARGIN = 60 * 60

_STEP_FUNCTIONS_DAYS = 90
"""Days for which Step Functions keeps a name after the execution has ended."""


def state_machine(consumer: "Consumer", name: str, model: "type[Struct]") -> Effect:
    """Return the effect that starts an execution of a Step Functions state machine.

    Its outcome is the ARN of the execution. If the name belongs to an execution with another input,
    the message is quarantined as `key-conflict`.

    Args:
        consumer: the consumer that performs it.
        name: names the effect, and the state machine in `ConsumerProps(starts=…)`. The state
            machine must be a standard one: a name does not identify an express execution.
        model: a msgspec.Struct; the input of the execution.

    Raises:
        RegistrationError: the deployed function does not know the state machine.
    """
    return _workflow(consumer, name, model, start_execution, _STEP_FUNCTIONS_DAYS)


def durable_function(consumer: "Consumer", name: str, model: "type[Struct]") -> Effect:
    """Return the effect that starts an execution of a durable Lambda function, asynchronously.

    Its outcome is the ARN of the durable execution. If the name belongs to an execution with
    another payload, the message is quarantined as `key-conflict`; after an attempt without an
    answer as `effect-unknown`, because that execution may be its own.

    Args:
        consumer: the consumer that performs it.
        name: names the effect, and the function in `ConsumerProps(starts=…)`.
        model: a msgspec.Struct; the payload.

    Raises:
        RegistrationError: the deployed function does not know the durable function.
    """
    days = int(os.environ.get(retention_variable(name), RETENTION_DAYS))
    return _workflow(consumer, name, model, start_durable_execution, days)


def _workflow(
    consumer: "Consumer",
    name: str,
    model: "type[Struct]",
    start: Callable[[str, Call], str],
    kept_days: int,
) -> Effect:
    _check_deployed(consumer, name)

    def start_once(_: Any, call: Call) -> str:
        return start(_arn(name), call)

    seconds = kept_days * _DAY - _MARGIN
    declare = consumer.effect(name, model, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=seconds)
    return declare(start_once)


def _check_deployed(consumer: "Consumer", name: str) -> None:
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ and workflow_variable(name) not in os.environ:
        raise RegistrationError(
            [
                f"{consumer.name} starts the workflow {name!r}, which its function does not know; "
                f"add it to starts= of the declaration of {consumer.name!r} in the CDK app"
            ]
        )


def _arn(name: str) -> str:
    variable = workflow_variable(name)
    if variable not in os.environ:
        raise NotDone(f"{variable} is not set; a test sets it to the ARN of the workflow")
    return os.environ[variable]
