"""Checks of the shop's registry: the library's own, folders, and names that were deployed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from once.cdk import (
    ConsumerProps,
    DeployedNames,
    DeploymentConfig,
    SynthError,
    consumer_set_faults,
    deployment_faults,
    missing_name_faults,
)
from stacks.deployed import DEPLOYED
from stacks.folders import FUNCTIONS, handler_folder

REGISTRY = "stacks/consumers.py"


def registry_faults(
    consumers: Sequence[ConsumerProps],
    config: DeploymentConfig,
    functions: Path = FUNCTIONS,
    deployed: Path = DEPLOYED,
) -> list[str]:
    """Return every fault of the deployment and of the registry; an empty list if there is none."""
    placed = [each for each in consumers if _has_place(each)]
    located = [
        replace(each, folder=handler_folder(each, functions)) if each in placed else each
        for each in consumers
    ]
    return [
        *(f"{fault} (cdk.json, or -c)" for fault in deployment_faults(config)),
        *(f"{fault} ({REGISTRY})" for fault in consumer_set_faults(located, config)),
        *_lost_names(consumers, config, deployed),
        *_lines_without_folder(placed, functions),
        *_folders_without_line(placed, functions),
    ]


def _has_place(consumer: ConsumerProps) -> bool:
    """Return whether name and folder have the right types; otherwise the library reports them."""
    return isinstance(consumer.name, str) and isinstance(consumer.folder, Path | None)


def _lost_names(
    consumers: Sequence[ConsumerProps], config: DeploymentConfig, deployed: Path
) -> list[str]:
    if config.local:  # an embedded AWS begins empty, and its end deletes everything
        return []
    try:
        names = DeployedNames.read(deployed, config.service)
    except SynthError as error:
        return list(error.faults)
    return [f"{fault} ({deployed.name})" for fault in missing_name_faults(names, consumers)]


def _lines_without_folder(consumers: Sequence[ConsumerProps], functions: Path) -> Iterator[str]:
    for consumer in consumers:
        folder = handler_folder(consumer, functions)
        if not (folder / "handler.py").is_file():
            yield (
                f"consumer {consumer.name!r}: its line has no folder; add "
                f"{folder.parent.name}/{folder.name}/handler.py, or delete the line ({REGISTRY})"
            )


def _folders_without_line(consumers: Sequence[ConsumerProps], functions: Path) -> Iterator[str]:
    places = {handler_folder(consumer, functions) for consumer in consumers}
    for handler in sorted(functions.glob("*/handler.py")):
        if handler.parent not in places:
            yield (
                f"functions/{handler.parent.name}: its folder has no line; add "
                f'ConsumerProps("{handler.parent.name}", …) to {REGISTRY}, or delete the folder'
            )
