"""Assembly of the shop's app: checks of the registry, both stacks, checks of the tree."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsii
from aws_cdk import App
from aws_cdk.cx_api import CloudAssembly
from constructs import IValidation

from once.cdk import (
    ConsumerProps,
    DeploymentConfig,
    SynthError,
    WebhookProps,
    stack_size_faults,
    unmanaged_mapping_faults,
)
from stacks.deployed import DEPLOYED
from stacks.folders import FUNCTIONS, handler_folder
from stacks.registry_checks import registry_faults
from stacks.service import ServiceStack
from stacks.state import StateStack
from stacks.webhooks import WEBHOOKS


@jsii.implements(IValidation)
class AppValidation:
    """Validation of the app at synthesis: the faults of the registry and of the finished tree."""

    def __init__(self, app: App, registry: Sequence[str]) -> None:
        self._app = app
        self._registry = registry

    def validate(self) -> list[str]:
        """Return every fault."""
        tree = self._app.node.find_all()
        return [*self._registry, *unmanaged_mapping_faults(tree), *stack_size_faults(tree)]


def assemble(
    app: App,
    consumers: Sequence[ConsumerProps],
    functions: Path = FUNCTIONS,
    deployed: Path = DEPLOYED,
    webhooks: WebhookProps | None = WEBHOOKS,
) -> Sequence[ServiceStack]:
    """Add both stacks to the app, as its context says; none if the registry has faults.

    The faults are reported at synthesis, together with those of the rest of the app.

    Args:
        app: the app.
        consumers: the lines of the registry.
        functions: the folder of the handlers' folders.
        deployed: the file of deployed names, which a deployment on AWS must not lose.
        webhooks: the webhook ingress; None for an app without one.

    Raises:
        SynthError: a function's package cannot be built.
    """
    config = DeploymentConfig.from_context(app.node, _parameters(consumers))
    faults = registry_faults(consumers, config, functions, deployed, webhooks)
    app.node.add_validation(AppValidation(app, faults))
    if faults:
        return []
    consumers = [replace(each, folder=handler_folder(each, functions)) for each in consumers]
    if webhooks is not None:
        webhooks = replace(webhooks, folder=handler_folder(webhooks, functions))
    state = StateStack(app, f"{config.service}-state", consumers, config, webhooks)
    name = f"{config.service}-service"
    return [ServiceStack(app, name, consumers, config=config, state=state, webhooks=webhooks)]


def synthesize(app: App) -> CloudAssembly:
    """Write the templates.

    Raises:
        SynthError: validation found faults; holds all of them.
    """
    try:
        return app.synth()
    except RuntimeError as error:  # the CDK's error, with the faults in its text
        _, failed, listed = str(error).partition("Validation failed with the following errors:")
        if not failed:
            raise
        faults = [line.strip().removeprefix("[] ") for line in listed.strip().splitlines()]
        raise SynthError("Once cannot be synthesized", faults) from None


def _parameters(consumers: Sequence[ConsumerProps]) -> list[str]:
    """Return the names of the context values that consumers ask for; skips malformed lists."""
    lists = (each.parameters for each in consumers if isinstance(each.parameters, tuple | list))
    return [name for names in lists for name in names]
