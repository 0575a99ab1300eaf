"""Checks of the shop's registry: the library's own, folders, and names that were deployed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from once.cdk import (
    ConsumerProps,
    DeployedNames,
    DeploymentConfig,
    SynthError,
    WebhookProps,
    consumer_set_faults,
    deployment_faults,
    missing_name_faults,
)
from stacks.deployed import DEPLOYED
from stacks.folders import FUNCTIONS, handler_folder
from stacks.webhooks import WEBHOOKS

REGISTRY = "stacks/consumers.py"
ENDPOINTS = "stacks/webhooks.py"

Line = ConsumerProps | WebhookProps


def registry_faults(
    consumers: Sequence[ConsumerProps],
    config: DeploymentConfig,
    functions: Path = FUNCTIONS,
    deployed: Path = DEPLOYED,
    webhooks: WebhookProps | None = WEBHOOKS,
) -> list[str]:
    """Return every fault of the deployment and of the registry; an empty list if there is none."""
    lines: list[Line] = list(consumers)
    lines += [] if webhooks is None else [webhooks]
    placed = [each for each in lines if _has_place(each)]
    located = [
        replace(each, folder=handler_folder(each, functions)) if each in placed else each
        for each in consumers
    ]
    return [
        *(f"{fault} (cdk.json, or -c)" for fault in deployment_faults(config)),
        *(f"{f} ({_file_of(f)})" for f in consumer_set_faults(located, config, webhooks)),
        *_lost_names(consumers, webhooks, config, deployed),
        *_lines_without_folder(placed, functions),
        *_folders_without_line(placed, functions),
    ]


def _file_of(fault: str) -> str:
    return ENDPOINTS if fault.startswith("webhook ingress") else REGISTRY


def _has_place(consumer: Line) -> bool:
    """Return whether name and folder have the right types; otherwise the library reports them."""
    return isinstance(consumer.name, str) and isinstance(consumer.folder, Path | None)


def _lost_names(
    consumers: Sequence[ConsumerProps],
    webhooks: WebhookProps | None,
    config: DeploymentConfig,
    deployed: Path,
) -> list[str]:
    if config.local:  # an embedded AWS begins empty, and its end deletes everything
        return []
    try:
        names = DeployedNames.read(deployed, config.service)
    except SynthError as error:
        return list(error.faults)
    faults = missing_name_faults(names, consumers, webhooks)
    return [f"{fault} ({deployed.name})" for fault in faults]


def _lines_without_folder(lines: Sequence[Line], functions: Path) -> Iterator[str]:
    for line in lines:
        folder = handler_folder(line, functions)
        if not (folder / "handler.py").is_file():
            kind, file = _origin(line)
            yield (
                f"{kind} {line.name!r}: its line has no folder; add "
                f"{folder.parent.name}/{folder.name}/handler.py, or delete the line ({file})"
            )


def _origin(line: Line) -> tuple[str, str]:
    """Return how messages name a line, and the file that holds it."""
    if isinstance(line, WebhookProps):
        return "webhook ingress", ENDPOINTS
    return "consumer", REGISTRY


def _folders_without_line(lines: Sequence[Line], functions: Path) -> Iterator[str]:
    places = {handler_folder(line, functions) for line in lines}
    for handler in sorted(functions.glob("*/handler.py")):
        if handler.parent not in places:
            yield (
                f"functions/{handler.parent.name}: its folder has no line; add "
                f'ConsumerProps("{handler.parent.name}", …) to {REGISTRY}, or delete the folder'
            )
