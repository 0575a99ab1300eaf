"""Checks of a registry: those of its lines, of folders, and of names that were deployed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from once.cdk.app.registry import Registry
from once.cdk.app.stage import Stage
from once.cdk.checks.account_set import account_set_faults
from once.cdk.checks.consumer_set import consumer_set_faults, deployment_faults
from once.cdk.checks.handlers import syntax_faults
from once.cdk.checks.missing_names import missing_name_faults
from once.cdk.deployed_names import DeployedNames
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import WebhookProps

Line = ConsumerProps | WebhookProps


def registry_faults(
    registry: Registry, config: DeploymentConfig, stage: Stage | None = None
) -> list[str]:
    """Return every fault of a deployment and of its registry; an empty list if there is none.

    Faults of the configuration name the stage, if there is one.
    """
    of_stage = "" if stage is None else f", stage {stage.name!r}"
    lines: list[Line] = list(registry.consumers)
    lines += [] if registry.webhooks is None else [registry.webhooks]
    placed = [each for each in lines if _has_place(each)]
    located = [
        replace(each, folder=registry.folder_of(each)) if each in placed else each
        for each in registry.consumers
    ]
    return [
        *(f"{fault} (DeploymentConfig{of_stage})" for fault in deployment_faults(config)),
        *(
            f"{fault} (DeploymentConfig{of_stage})"
            for fault in account_set_faults(located, config, registry.webhooks)
        ),
        *(
            f"{fault} ({_file_of(fault, registry)})"
            for fault in consumer_set_faults(located, config, registry.webhooks)
        ),
        *_lost_names(registry, config),
        *_handler_file_faults(placed, registry),
        *_folders_without_line(placed, registry),
    ]


def _file_of(fault: str, registry: Registry) -> str:
    of_webhooks = fault.startswith("webhook ingress")
    return _shown((of_webhooks and registry.webhooks_file) or registry.file)


def _shown(path: Path) -> str:
    """Return a path as a person in the app's folder would type it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _has_place(line: Line) -> bool:
    """Return whether name and folder have the right types; otherwise another check reports them."""
    return isinstance(line.name, str) and isinstance(line.folder, Path | None)


def _lost_names(registry: Registry, config: DeploymentConfig) -> list[str]:
    if config.local:  # an embedded AWS begins empty, and its end deletes everything
        return []
    try:
        names = DeployedNames.read(registry.deployed, config.service)
    except SynthError as error:
        return list(error.faults)
    faults = missing_name_faults(names, registry.consumers, registry.webhooks)
    return [f"{fault} ({registry.deployed.name})" for fault in faults]


def _handler_file_faults(lines: Sequence[Line], registry: Registry) -> Iterator[str]:
    for line in lines:
        folder = registry.folder_of(line)
        if not (folder / "handler.py").is_file():
            kind = "webhook ingress" if isinstance(line, WebhookProps) else "consumer"
            yield (
                f"{kind} {line.name!r}: its line has no folder; add "
                f"{folder.parent.name}/{folder.name}/handler.py, or delete the line "
                f"({_file_of(kind, registry)})"
            )
        elif isinstance(line, WebhookProps):  # a consumer's are with its other faults
            faults = syntax_faults(folder, line.name)
            yield from (f"webhook ingress {line.name!r}: {fault}" for fault in faults)


def _folders_without_line(lines: Sequence[Line], registry: Registry) -> Iterator[str]:
    places = {registry.folder_of(line) for line in lines}
    for handler in sorted(registry.functions.glob("*/handler.py")):
        folder = handler.parent
        if folder not in places:
            yield (
                f"{folder.parent.name}/{folder.name}: its folder has no line; add "
                f'ConsumerProps("{folder.name}", …) to {_shown(registry.file)}, or delete the '
                "folder"
            )
