"""Properties of the workflows that a consumer may start."""

from dataclasses import dataclass

from once.workflow_names import RETENTION_DAYS


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
        retention_days: the `RetentionPeriodInDays` of the function. Lambda keeps the name of an
            ended execution for this time, so a start is not repeated later.
    """

    name: str
    arn: str
    retention_days: int = RETENTION_DAYS


WorkflowProps = StateMachineProps | DurableFunctionProps
