"""Deployment: names and addresses of its resources, read from the outputs of its two stacks."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from once.ops.aws._stack_outputs import stack_outputs
from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.errors import OpsError
from once.schema import StackOutput
from once.source import Source


@dataclass(frozen=True, slots=True)
class DeployedConsumer:
    """Resources of one consumer.

    Attributes:
        name: the consumer's name.
        queue_url: its queue.
        dead_letter_url: its dead-letter queue.
        function_name: its function.
        external: event types that it takes from producers.
        events: event types that it takes from other consumers.
        isolation_queue_url: its isolation queue; None with a batch size of 1.
        renamed_from: its first name if it was renamed.
        keys: the key rule of each event type, by name and arguments; without the rules that could
            not be read at synthesis.
        volatile: the volatile fields of the event types that have some; None if not known.
        item_table: the logical name of the table whose items hold its dedup records; None if they
            are in the dedup table.
        item_key: the attributes of that table's primary key.
        grouped_by: the field of the data that gives an event's message group; None without one.
        source: the service that sends its external events; None for the ingress topic.
    """

    name: str
    queue_url: str
    dead_letter_url: str
    function_name: str
    external: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    isolation_queue_url: str | None = None
    renamed_from: str | None = None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    volatile: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    item_table: str | None = None
    item_key: tuple[str, ...] = ()
    grouped_by: str | None = None
    source: Source | None = None

    @property
    def ingress_types(self) -> tuple[str, ...]:
        """Event types that it takes from the ingress topic."""
        return self.external if self.source is None else ()

    @property
    def is_fifo(self) -> bool:
        """Whether its queue is a FIFO queue."""
        return self.queue_url.endswith(".fifo")

    @property
    def event_types(self) -> tuple[str, ...]:
        """Every type that it takes."""
        return (*self.external, *self.events)

    @property
    def identity(self) -> str:
        """The name that its dedup keys begin with, and that its events have as their source."""
        return self.renamed_from or self.name

    @property
    def queue_urls(self) -> tuple[str, ...]:
        """URLs of the queues that invoke its function."""
        return tuple(filter(None, (self.queue_url, self.isolation_queue_url)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Resources of a deployment; consumers and tables by their logical names.

    `ordered_ingress_topic_arn` is the FIFO topic of the producers; None without ordered types.
    `claim_bucket` is the claim-check bucket; None if no consumer has one. `webhooks` is the webhook
    ingress, if there is one.
    """

    service: str
    ingress_topic_arn: str
    events_topic_arn: str
    relay_function_name: str
    relay_dead_letter_url: str
    unrouted_queue_url: str
    sweep_queue_url: str
    dedup_table: str
    operator_log: str
    tables: Mapping[str, str]
    consumers: Mapping[str, DeployedConsumer]
    ordered_ingress_topic_arn: str | None = None
    claim_bucket: str | None = None
    webhooks: DeployedWebhooks | None = None

    @classmethod
    def find(cls, service: str = "once") -> Self:
        """Find a deployment in the account and region that the environment names.

        Args:
            service: the name it was deployed under.

        Raises:
            OpsError: a stack or one of its outputs is missing.
            botocore.exceptions.BotoCoreError, ClientError: CloudFormation cannot be read.
        """
        return cls.of(service, stack_outputs(service))

    @classmethod
    def of(cls, service: str, outputs: Mapping[str, str]) -> Self:
        """Read the outputs of both stacks, by output key.

        Raises:
            OpsError: an output is missing.
        """
        try:
            return cls(
                service=service,
                ingress_topic_arn=outputs[StackOutput.INGRESS_TOPIC],
                events_topic_arn=outputs[StackOutput.EVENTS_TOPIC],
                relay_function_name=outputs[StackOutput.RELAY_FUNCTION],
                relay_dead_letter_url=outputs[StackOutput.RELAY_DEAD_LETTERS],
                unrouted_queue_url=outputs[StackOutput.UNROUTED_QUEUE],
                sweep_queue_url=outputs[StackOutput.SWEEP_QUEUE],
                dedup_table=outputs[StackOutput.DEDUP_TABLE],
                operator_log=outputs[StackOutput.OPERATOR_LOG],
                tables=_tables(outputs),
                consumers=_consumers(outputs, service),
                ordered_ingress_topic_arn=outputs.get(StackOutput.ORDERED_INGRESS_TOPIC),
                claim_bucket=outputs.get(StackOutput.CLAIM_BUCKET),
                webhooks=DeployedWebhooks.of(service, outputs),
            )
        except KeyError as error:
            raise OpsError(
                f"the stacks of {service!r} have no output {error}: deploy them again (`cdk deploy "
                "--all`), from the version of `once` that this command belongs to"
            ) from None

    @property
    def identities(self) -> list[str]:
        """The names that dedup keys begin with; lines of a rename share one."""
        return [*dict.fromkeys(each.identity for each in self.consumers.values())]

    def is_ordered(self, event_type: str) -> bool:
        """Tell whether a FIFO consumer takes a type, so that it is published to a FIFO topic."""
        return any(one.is_fifo for one in self.takers(event_type))

    def ingress_topic(self, event_type: str) -> str:
        """Return the ARN of the topic to which producers publish a type."""
        ordered = self.ordered_ingress_topic_arn
        return ordered if ordered and self.is_ordered(event_type) else self.ingress_topic_arn

    def group_field(self, event_type: str) -> str | None:
        """Return the field of the data that gives the message group of a type, if it has one."""
        return next(filter(None, (one.grouped_by for one in self.takers(event_type))), None)

    def takers(self, event_type: str) -> list[DeployedConsumer]:
        """Return the consumers that take an event type."""
        return [one for one in self.consumers.values() if event_type in one.event_types]

    def consumer(self, name: str) -> DeployedConsumer:
        """Return one consumer.

        Raises:
            OpsError: there is none of this name.
        """
        if name not in self.consumers:
            known = ", ".join(self.consumers)
            raise OpsError(f"{self.service!r} has no consumer {name!r}: choose one of {known}")
        return self.consumers[name]

    def table(self, name: str) -> str:
        """Return the physical name of a business table.

        Raises:
            OpsError: there is none of this name.
        """
        if name not in self.tables:
            known = ", ".join(self.tables)
            raise OpsError(f"{self.service!r} has no table {name!r}; its tables are {known}")
        return self.tables[name]


def _tables(outputs: Mapping[str, str]) -> dict[str, str]:
    return {
        _snake(word): outputs[f"{StackOutput.TABLE}{word}"]
        for word in _words(outputs, StackOutput.TABLE)
    }


def _consumers(outputs: Mapping[str, str], service: str) -> dict[str, DeployedConsumer]:
    words = _words(outputs, StackOutput.FUNCTION)
    consumers = [_consumer(outputs, service, word) for word in words]
    return {consumer.name: consumer for consumer in consumers}


def _consumer(outputs: Mapping[str, str], service: str, word: str) -> DeployedConsumer:
    function = outputs[f"{StackOutput.FUNCTION}{word}"]
    # The function's name contains the consumer's name unchanged; the output's key does not.
    name = function.removeprefix(f"{service}-")
    identity = outputs[f"{StackOutput.IDENTITY}{word}"]
    return DeployedConsumer(
        name=name,
        queue_url=outputs[f"{StackOutput.QUEUE}{word}"],
        dead_letter_url=outputs[f"{StackOutput.DEAD_LETTERS}{word}"],
        function_name=function,
        isolation_queue_url=outputs.get(f"{StackOutput.ISOLATION_QUEUE}{word}"),
        renamed_from=None if identity == name else identity,
        **_types(outputs[f"{StackOutput.EVENT_TYPES}{word}"]),
    )


def _words(outputs: Mapping[str, str], prefix: str) -> list[str]:
    """Return the rest of every output key with a prefix, sorted."""
    return sorted(key.removeprefix(prefix) for key in outputs if key.startswith(prefix))


def _types(taken: str) -> dict[str, Any]:
    found = json.loads(taken)
    return {
        **{kind: tuple(found[kind]) for kind in ("external", "events")},
        **{kind: _tuples(found[kind]) for kind in ("keys", "volatile")},
        "item_table": found.get("item_table"),
        "item_key": tuple(found.get("item_key", ())),
        "grouped_by": found["grouped_by"],
        "source": Source.from_text(found["source"]) if "source" in found else None,
    }


def _tuples(lists: Mapping[str, list[str] | None]) -> dict[str, tuple[str, ...] | None]:
    return {name: None if one is None else tuple(one) for name, one in lists.items()}


def _snake(words: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", words).lower()
