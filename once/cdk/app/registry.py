"""The registry of a service: its consumers, its webhook ingress, and where its files are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from once.cdk.props import ConsumerProps, MessageGroups, WebhookProps
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
    """

    consumers: Sequence[ConsumerProps]
    file: Path
    functions: Path
    deployed: Path
    webhooks: WebhookProps | None = None
    webhooks_file: Path | None = None

    def folder_of(self, line: ConsumerProps | WebhookProps) -> Path:
        """Return the folder of a line's `handler.py`: by default the one of its name."""
        return line.folder or self.functions / line.name

    def line_of(self, name: str) -> ConsumerProps:
        """Return the line of a consumer, with its folder.

        Raises:
            LookupError: no line has this name; the text lists those that there are.
        """
        for line in self.consumers:
            if line.name == name:
                return replace(line, folder=self.folder_of(line))
        names = ", ".join(line.name for line in self.consumers)
        raise LookupError(f"{self.file} has no consumer {name!r}; it has {names or 'none'}")

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
            webhooks=None
            if webhooks is None
            else replace(webhooks, folder=self.folder_of(webhooks)),
        )


def event_sources(
    consumer: ConsumerProps,
    consumers: Iterable[ConsumerProps],
    webhooks: WebhookProps | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return the CloudEvents sources that each of the consumer's `events` may come from.

    Args:
        consumer: the consumer that takes the events.
        consumers: every consumer that may publish them.
        webhooks: the webhook ingress that may publish them, if there is one.
    """
    publishers = published_types(consumers, webhooks)
    return {
        event: tuple(SOURCE_PREFIX + name for name, types in publishers.items() if event in types)
        for event in consumer.events
    }


def published_types(
    consumers: Iterable[ConsumerProps], webhooks: WebhookProps | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the event types that each identity may publish; without those that publish none.

    The lines of a consumer that is being renamed have one identity. A webhook ingress publishes the
    types of its endpoints under its name.
    """
    found: dict[str, tuple[str, ...]] = {}
    for each in consumers:
        if each.publishes:
            types = (*found.get(each.identity, ()), *each.publishes)
            found[each.identity] = tuple(dict.fromkeys(types))
    if webhooks is not None and webhooks.event_types:
        found[webhooks.name] = webhooks.event_types
    return found
