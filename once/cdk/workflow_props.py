"""Properties of the workflows that a consumer may start."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateMachineProps:
    """A standard state machine of Step Functions.

    Attributes:
        name: the name that the handler's `state_machine(…)` uses.
        arn: its ARN, or that of one of its versions or aliases, such as
            `machine.state_machine_arn`.
    """

    name: str
    arn: str


@dataclass(frozen=True, slots=True)
class DurableFunctionProps:
    """A durable Lambda function.

    Attributes:
        name: the name that the handler's `durable_function(…)` uses.
        arn: the ARN of one of its versions or aliases, such as `alias.function_arn`.
    """

    name: str
    arn: str


WorkflowProps = StateMachineProps | DurableFunctionProps
