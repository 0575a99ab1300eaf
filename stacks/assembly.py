"""Puts the app together: checks the registry, builds both stacks, checks the tree."""

from collections.abc import Sequence
from pathlib import Path

import jsii
from aws_cdk import App
from aws_cdk.cx_api import CloudAssembly
from constructs import IValidation

from once.cdk.checks.registry import faults_of
from once.cdk.checks.unmanaged_mappings import strays_in
from once.cdk.config import Config
from once.cdk.errors import SynthError
from once.cdk.props import FUNCTIONS, Consumer
from stacks.service import ServiceStack
from stacks.state import StateStack


@jsii.implements(IValidation)
class Faults:
    """What the CDK asks at synthesis: the faults of the registry and those of the finished tree."""

    def __init__(self, app: App, registry: Sequence[str]) -> None:
        self._app = app
        self._registry = registry

    def validate(self) -> list[str]:
        """Return every fault."""
        return [*self._registry, *strays_in(self._app.node.find_all())]


def assemble(
    app: App, consumers: Sequence[Consumer], functions: Path = FUNCTIONS
) -> Sequence[ServiceStack]:
    """Add both stacks to the app, as its context says; none if the registry is at fault.

    The faults themselves come at synthesis, together with those of whatever else the app holds.

    Raises:
        SynthError: a function's package cannot be built.
    """
    asked = (name for consumer in consumers for name in consumer.parameters)
    config = Config.from_context(app.node, asked)
    faults = faults_of(consumers, config, functions)
    app.node.add_validation(Faults(app, faults))
    if faults:
        return []
    state = StateStack(app, f"{config.service}-state", consumers, config)
    name = f"{config.service}-service"
    return [ServiceStack(app, name, consumers, config=config, state=state)]


def synthesize(app: App) -> CloudAssembly:
    """Write the templates.

    Raises:
        SynthError: validation found faults; holds all of them.
    """
    try:
        return app.synth()
    except RuntimeError as error:  # what the CDK raises arrives as this, with a text that counts
        _, failed, listed = str(error).partition("Validation failed with the following errors:")
        if not failed:
            raise
        faults = [line.strip().removeprefix("[] ") for line in listed.strip().splitlines()]
        raise SynthError("Once cannot be synthesized", faults) from None
