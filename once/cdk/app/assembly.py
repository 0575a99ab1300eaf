"""Assembly of an app: checks of the registry, both stacks, checks of the tree."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jsii
from aws_cdk import App, Environment, PermissionsBoundary
from aws_cdk.cx_api import CloudAssembly
from constructs import IValidation

from once.cdk.app._discarded_data import discard_data
from once.cdk.app._registry_checks import registry_faults
from once.cdk.app._stage_checks import stage_faults
from once.cdk.app.registry import Registry
from once.cdk.app.service_stack import ServiceStack
from once.cdk.app.stage import Stage
from once.cdk.app.state_stack import StateStack
from once.cdk.checks.stack_size import stack_size_faults
from once.cdk.checks.unmanaged_mappings import unmanaged_mapping_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.props import ConsumerProps

Deployment = tuple[DeploymentConfig, Stage | None]


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
    registry: Registry,
    config: DeploymentConfig | None = None,
    stages: Sequence[Stage] = (),
) -> Sequence[ServiceStack]:
    """Add both stacks of each deployment to the app; none if the registry has faults.

    The faults are reported at synthesis, together with those of the rest of the app. A value of the
    CDK context is used in place of the one in a configuration.

    Args:
        app: the app.
        registry: the service.
        config: the configuration without stages, and on the embedded AWS; by default the defaults.
        stages: the deployments; without any there is one, in the account of the credentials.

    Returns:
        The stack of consumers of each deployment.

    Raises:
        SynthError: a function's package cannot be built.
    """
    deployments = _deployments(app, registry, config, stages)
    faults = [
        *stage_faults([each for _, each in deployments if each is not None]),
        *(fault for each, stage in deployments for fault in registry_faults(registry, each, stage)),
    ]
    app.node.add_validation(AppValidation(app, list(dict.fromkeys(faults))))
    if faults:
        return []
    registry = registry.located()
    return [_add_stacks(app, registry, each, stage) for each, stage in deployments]


def _deployments(
    app: App, registry: Registry, config: DeploymentConfig | None, stages: Sequence[Stage]
) -> list[Deployment]:
    """Return the configuration of each deployment, and its stage if there is one."""
    names = _parameters(registry.consumers)
    alone = DeploymentConfig.from_context(app.node, names, config)
    if alone.local or not stages:
        return [(alone, None)]
    every = [DeploymentConfig.from_context(app.node, names, each.config) for each in stages]
    return [(each, replace(stage, config=each)) for each, stage in zip(every, stages, strict=True)]


def _add_stacks(
    app: App, registry: Registry, config: DeploymentConfig, stage: Stage | None
) -> ServiceStack:
    boundary = config.permissions_boundary
    options: dict[str, Any] = {
        "env": stage and Environment(account=stage.account, region=stage.region),
        "tags": dict(config.tags) or None,
        "permissions_boundary": boundary and PermissionsBoundary.from_arn(boundary),
    }
    state = StateStack(app, f"{config.service}-state", registry, config=config, **options)
    name = f"{config.service}-service"
    service = ServiceStack(app, name, registry, config=config, state=state, **options)
    if not config.keep_data:
        for stack in (state, service):
            discard_data(stack)
    return service


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
