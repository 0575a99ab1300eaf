"""Assembly of an app: its command line, the checks of its registry, the stacks of each stage."""

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import App, BootstraplessSynthesizer, Environment, PermissionsBoundary, RemovalPolicies
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk.cx_api import CloudAssembly
from constructs import IValidation

from once.cdk.app.registry import Registry
from once.cdk.app.stacks import FurtherStack, ServiceStack, StateStack
from once.cdk.checks.constructs import stack_size_faults, unmanaged_mapping_faults
from once.cdk.checks.consumer_set import consumer_set_faults
from once.cdk.checks.deployment_config import deployment_faults, stage_faults, unfit_option_faults
from once.cdk.checks.handlers_in_code import has_handler, syntax_faults
from once.cdk.deployed_names import DeployedNames, lost_use_faults, missing_name_faults
from once.cdk.deployment_options import DeploymentConfig, Stage
from once.cdk.props import Line, WebhookProps, named, output_key
from once.cdk.resting_cost import summary
from once.cdk.synth_error import SynthError
from once.names import StackOutput

_CONSUMER_STACK = re.compile(r"(.+)-service(?:-(\d+))?")
"""A stack of consumers: the name of the deployment, and the number of a further one."""
_FUNCTIONS = (StackOutput.FUNCTION, StackOutput.COMMANDS_FUNCTION)
_USAGE = "usage: without arguments to synthesize, or `record OUTPUTS` after `cdk deploy`"


def run_app(
    registry: Registry,
    config: DeploymentConfig | None = None,
    stages: Sequence[Stage] = (),
    *,
    arguments: Sequence[str] | None = None,
) -> None:
    """Synthesize the app, or record deployed names; exit with a text if that has faults.

    Synthesis prints the resources of each deployment and its cost at rest, in three lines.

    Args:
        config: the configuration without stages, and on the embedded AWS; by default the defaults.
        stages: the deployments; without any there is one, in the account of the credentials.
        arguments: by default those of the process: none to synthesize; `record OUTPUTS` to add the
            registry's names to its file of deployed names, for each deployment in the file that
            `cdk deploy --outputs-file OUTPUTS` writes when it has succeeded.
    """
    try:
        match list(sys.argv[1:] if arguments is None else arguments):
            case []:
                app = App()
                assemble(app, registry, config, stages)
                made = synthesize(app)
                if not DeploymentConfig.from_context(app.node, base=config).local:
                    sys.stderr.write(_summaries(made))
            case ["record", outputs]:
                if new := record_names(registry, _outputs_in(Path(outputs))):
                    name = registry.deployed.name
                    sys.stdout.write(f"{name}: added {', '.join(new)}; commit it\n")
            case _:
                sys.exit(_USAGE)
    except SynthError as error:
        sys.exit(f"\n{error}\n")


def _outputs_in(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError) as error:
        fault = (
            f"{file} cannot be read ({error}): `cdk deploy --outputs-file {file}` writes it when "
            "it has succeeded"
        )
        raise SynthError("no deployed name was recorded", [fault]) from None


def _summaries(made: CloudAssembly) -> str:
    """Return, for each deployment, three lines with its resources and its cost at rest."""
    services: dict[str, list[Any]] = {}
    for stack in made.stacks:
        if found := re.fullmatch(r"(.+)-(?:state|service(?:-\d+)?)", stack.stack_name):
            services.setdefault(found[1], []).append(stack.template)
    return "".join(summary(name, *templates) for name, templates in services.items())


def record_names(registry: Registry, outputs: Mapping[str, Collection[str]]) -> list[str]:
    """Record the registry's names for each deployment whose stacks are given; return new names.

    It runs after a deployment has succeeded, never at synthesis. The keys of the outputs of each
    stack are by the stack's name, as `cdk deploy --outputs-file` writes them.
    """
    services: dict[str, dict[str, int]] = {}
    for stack, keys in outputs.items():
        if found := _CONSUMER_STACK.fullmatch(stack):
            services.setdefault(found[1], {}).update(
                (each.name, int(found[2] or 1))
                for each in registry.lines
                if {*keys} & {f"{kind}{output_key(each.name)}" for kind in _FUNCTIONS}
            )
    added = []
    for service, stacks in services.items():
        lines = [
            each for each in registry.lines if each.name in stacks or each is registry.webhooks
        ]
        further = {name: number for name, number in stacks.items() if number > 1}
        names = DeployedNames.of(lines, further)
        added += names.record(registry.deployed, service)
    return added


def _deployed(registry: Registry, config: DeploymentConfig) -> DeployedNames:
    """Return the names of a deployment; none on an embedded AWS, which begins empty."""
    if config.local:
        return DeployedNames()
    return DeployedNames.read(registry.deployed, config.service)


Deployment = tuple[DeploymentConfig, Stage | None]


@jsii.implements(IValidation)
class AppValidation:
    """Validation of the app at synthesis: the faults of the registry and of the finished tree."""

    def __init__(self, app: App, registry: Sequence[str]) -> None:
        self._app = app
        self._registry = registry

    def validate(self) -> list[str]:
        tree = self._app.node.find_all()
        return [*self._registry, *unmanaged_mapping_faults(tree), *stack_size_faults(tree)]


def assemble(
    app: App,
    registry: Registry,
    config: DeploymentConfig | None = None,
    stages: Sequence[Stage] = (),
) -> Sequence[ServiceStack]:
    """Add the stacks of each deployment to the app; none if the registry has faults.

    The faults are reported at synthesis, together with those of the rest of the app. A value of the
    CDK context is used in place of the one in a configuration.

    Args:
        config: the configuration without stages, and on the embedded AWS; by default the defaults.
        stages: the deployments; without any there is one, in the account of the credentials.

    Returns:
        The service stack of each deployment.
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
    lists = (each.parameters for each in registry.consumers)
    # A malformed list is a fault of its own.
    names = [name for each in lists if isinstance(each, tuple | list) for name in each]
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
        "synthesizer": BootstraplessSynthesizer() if config.external_functions else None,
        "env": stage and Environment(account=stage.account, region=stage.region),
        "tags": dict(config.tags) or None,
        "permissions_boundary": boundary and PermissionsBoundary.from_arn(boundary),
    }
    state = StateStack(app, f"{config.service}-state", registry, config=config, **options)
    lines = _deployed(registry, config).place(registry.consumers, config.consumers_per_stack)
    name = f"{config.service}-service"
    further = {f"{name}-{number}": each for number, each in enumerate(lines[1:], 2)}
    options |= {"config": config, "state": state}
    service = ServiceStack(app, name, registry, further=further, **options)
    stacks = [
        FurtherStack(app, each, rest, registry, service=service, **options)
        for each, rest in further.items()
    ]
    if not config.keep_data:
        for stack in (state, service, *stacks):
            # A bucket with objects in it must be emptied before its stack is deleted.
            RemovalPolicies.of(stack).destroy()
            for each in stack.node.find_all():
                if isinstance(each, dynamodb.CfnTable):
                    each.deletion_protection_enabled = False
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


def registry_faults(
    registry: Registry, config: DeploymentConfig, stage: Stage | None = None
) -> list[str]:
    """Return every fault of a deployment and of its registry; an empty list if there is none.

    Faults of the configuration name the stage, if there is one.
    """
    of_stage = "" if stage is None else f", stage {stage.name!r}"
    lines = registry.lines
    # Names and folders of other types are faults of their own.
    placed = [x for x in lines if isinstance(x.name, str) and isinstance(x.folder, Path | None)]
    located = [
        replace(each, folder=registry.folder_of(each)) if each in placed else each for each in lines
    ]
    region = None if stage is None else stage.region
    of_options = [*deployment_faults(config), *unfit_option_faults(config, located, region)]
    return [
        *(f"{fault} (DeploymentConfig{of_stage})" for fault in of_options),
        *(
            f"{fault} ({_file_of(fault, registry)})"
            for fault in consumer_set_faults(located, config)
        ),
        *_lost_names(registry, config),
        *_folder_faults(placed, registry),
    ]


def _file_of(fault: str, registry: Registry) -> str:
    of_webhooks = fault.startswith("webhook ingress")
    return _shown((of_webhooks and registry.webhooks_file) or registry.file)


def _shown(path: Path) -> str:
    """Return a path as a person in the app's folder would type it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _lost_names(registry: Registry, config: DeploymentConfig) -> list[str]:
    try:
        names = _deployed(registry, config)
    except SynthError as error:
        return list(error.faults)
    faults = [*missing_name_faults(names, registry.lines)]
    if config.gradual_rollout:
        faults += lost_use_faults(names, registry.lines)
    return [f"{fault} ({registry.deployed.name})" for fault in faults]


def _folder_faults(lines: Sequence[Line], registry: Registry) -> Iterator[str]:
    for line in lines:
        folder = registry.folder_of(line)
        if not has_handler(folder):
            yield (
                f"{named(line)}: its line has no folder; add "
                f"{folder.parent.name}/{folder.name}/handler.py, or delete the line "
                f"({_file_of(named(line), registry)})"
            )
        elif isinstance(line, WebhookProps):  # others' are with their other faults
            faults = syntax_faults(folder, line.name)
            yield from (f"{named(line)}: {fault}" for fault in faults)
    places = {registry.folder_of(line) for line in lines}
    for handler in sorted(registry.functions.glob("*/handler.py")):
        folder = handler.parent
        if folder not in places:
            yield (
                f"{folder.parent.name}/{folder.name}: its folder has no line; add "
                f'ConsumerProps("{folder.name}", …) or CommandProps("{folder.name}", …) to '
                f"{_shown(registry.file)}, or delete the folder"
            )
