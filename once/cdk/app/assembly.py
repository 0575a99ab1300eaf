"""Assembly of an app: checks of the registry, both stacks, checks of the tree."""

from collections.abc import Sequence

import jsii
from aws_cdk import App
from aws_cdk.cx_api import CloudAssembly
from constructs import IValidation

from once.cdk.app._registry_checks import registry_faults
from once.cdk.app.registry import Registry
from once.cdk.app.service_stack import ServiceStack
from once.cdk.app.state_stack import StateStack
from once.cdk.checks.stack_size import stack_size_faults
from once.cdk.checks.unmanaged_mappings import unmanaged_mapping_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.props import ConsumerProps


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


def assemble(app: App, registry: Registry) -> Sequence[ServiceStack]:
    """Add both stacks to the app, as its context says; none if the registry has faults.

    The faults are reported at synthesis, together with those of the rest of the app.

    Returns:
        The stack of consumers of each deployment.

    Raises:
        SynthError: a function's package cannot be built.
    """
    config = DeploymentConfig.from_context(app.node, _parameters(registry.consumers))
    faults = registry_faults(registry, config)
    app.node.add_validation(AppValidation(app, faults))
    if faults:
        return []
    registry = registry.located()
    state = StateStack(app, f"{config.service}-state", registry, config=config)
    name = f"{config.service}-service"
    return [ServiceStack(app, name, registry, config=config, state=state)]


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
