"""The registry of a service: its consumers, commands and webhooks, and where its files are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from once.cdk.props import CommandProps, ConsumerProps, Line, MessageGroups, WebhookProps
from once.names import SOURCE_PREFIX


@dataclass(frozen=True, slots=True)
class Registry:
    """The consumers of a service.

    Attributes:
        consumers: the consumers' properties, one line each.
        file: the file that holds the lines, as faults name it.
        functions: the folder of the handlers' folders. Each of them must belong to a line.
        deployed: the JSON file of deployed names. It is committed, and begins as `{}`.
        webhooks: the webhook ingress; None without one.
        webhooks_file: the file that holds the ingress's properties; by default `file`.
        commands: the properties of functions with commands, one line each.
    """

    consumers: Sequence[ConsumerProps]
    file: Path
    functions: Path
    deployed: Path
    webhooks: WebhookProps | None = None
    webhooks_file: Path | None = None
    commands: Sequence[CommandProps] = ()

    @property
    def lines(self) -> list[Line]:
        """Every line, each of which has a folder."""
        return [*self.consumers, *self.commands, *filter(None, [self.webhooks])]

    def folder_of(self, line: Line) -> Path:
        """Return the folder of a line's `handler.py`: by default the one of its name."""
        return line.folder or self.functions / line.name

    def line_of(self, name: str) -> ConsumerProps | CommandProps:
        """Return the line of a consumer or of commands, with its folder.

        Raises:
            LookupError: no line has this name; the text lists those that there are.
        """
        lines: list[ConsumerProps | CommandProps] = [*self.consumers, *self.commands]
        for line in lines:
            if line.name == name:
                return replace(line, folder=self.folder_of(line))
        names = ", ".join(line.name for line in lines)
        raise LookupError(f"{self.file} has no line {name!r}; it has {names or 'none'}")

    def settings_of(self, name: str) -> dict[str, Any]:
        """Return the fields of a consumer's `once.settings.Settings` that follow from the lines.

        Without `sources`: events of a test come from the test.

        Raises:
            LookupError: no line has this name.
        """
        line, groups = self.line_of(name), MessageGroups.of(self.consumers)
        return {**line.settings, **groups.among(line.publishes).settings}

    def located(self) -> Self:
        """Return the registry with the folder of each line."""
        webhooks = self.webhooks
        return replace(
            self,
            consumers=[replace(each, folder=self.folder_of(each)) for each in self.consumers],
            commands=[replace(each, folder=self.folder_of(each)) for each in self.commands],
            webhooks=webhooks and replace(webhooks, folder=self.folder_of(webhooks)),
        )


def event_sources(consumer: ConsumerProps, lines: Iterable[Line]) -> dict[str, tuple[str, ...]]:
    """Return the CloudEvents sources that each of the consumer's `events` may come from.

    `lines` are those that may publish them, such as `Registry.lines`.
    """
    publishers = published_types(lines)
    return {
        event: tuple(SOURCE_PREFIX + name for name, types in publishers.items() if event in types)
        for event in consumer.events
    }


def published_types(lines: Iterable[Line]) -> dict[str, tuple[str, ...]]:
    """Return the event types that each identity may publish; without those that publish none.

    The lines of a consumer that is being renamed have one identity.
    """
    found: dict[str, tuple[str, ...]] = {}
    for each in lines:
        if each.publishes:
            types = (*found.get(each.identity, ()), *each.publishes)
            found[each.identity] = tuple(dict.fromkeys(types))
    return found
