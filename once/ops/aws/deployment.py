"""Deployment: names and addresses of its resources, read from the outputs of its stacks."""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from botocore.exceptions import ClientError
from msgspec.structs import replace

from once.errors import Unpublishable
from once.event_sources import EventBridgeSource, S3Source, ScheduleSource, SnsSource, Source
from once.events import cloud_event
from once.events.identity import RULES, Key, fingerprint, message_group
from once.events.outgoing import GROUP_EXTENSION, OutgoingEvent
from once.failures.quarantine import text
from once.names import EVENT_TYPE_ATTRIBUTE, RELAY, UNROUTED, ExternalOutput, StackOutput
from once.ops.aws.clients import client
from once.ops.errors import NotFoundError, OpsError
from once.webhooks.endpoint import Endpoint

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

_T = TypeVar("_T")

SEND_SOURCE = "/once-send"
"""The source of the events of `once send`, unless it is given another one."""

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The largest event of any consumer."""


@dataclass(frozen=True, slots=True)
class DeployedConsumer:
    """Resources and key rules of one consumer.

    Synthesis reads the key rules from the handlers' source, and writes them into the outputs.

    Attributes:
        external: event types that it takes from producers.
        events: event types that it takes from other consumers.
        isolation_queue_url: its isolation queue; None with a batch size of 1.
        identity: the name that its dedup keys begin with, and that its events have as their source.
        keys: the key rule of each event type; without those that synthesis could not read.
        volatile: the volatile fields of the event types that have some; None if not known.
        item_table: the logical name of the table whose items hold its dedup records; None if they
            are in the dedup table.
        item_key: the attributes of that table's primary key.
        grouped_by: the field of the data that gives an event's message group; None without one.
        source: the service that sends its external events; None for the ingress topic.
        queue_rules: the attributes that its existing queue must have, by `QueueRule`; empty if the
            stack makes the queue.
        contract: outputs for the tool that makes its function, by `ExternalOutput`, and the values
            of variables by `VARIABLE` and the variable's word; empty if a stack makes the function.
    """

    name: str
    queue_url: str
    dead_letter_url: str
    function_name: str
    external: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    isolation_queue_url: str | None = None
    identity: str = ""
    keys: Mapping[str, Key] = field(default_factory=dict)
    volatile: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    item_table: str | None = None
    item_key: tuple[str, ...] = ()
    grouped_by: str | None = None
    source: Source | None = None
    queue_rules: Mapping[str, int] = field(default_factory=dict)
    contract: Mapping[str, str] = field(default_factory=dict)

    @property
    def ingress_types(self) -> tuple[str, ...]:
        return self.external if self.source is None else ()

    @property
    def is_fifo(self) -> bool:
        return self.queue_url.endswith(".fifo")

    @property
    def event_types(self) -> tuple[str, ...]:
        """Every type that it takes."""
        return (*self.external, *self.events)

    @property
    def queue_urls(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.queue_url, self.isolation_queue_url)))

    def with_group(self, event: OutgoingEvent) -> OutgoingEvent:
        """Return an event in the message group that it has at this consumer.

        Raises:
            Unpublishable: the queue is a FIFO queue, and the event has no group.
        """
        group = None
        if self.grouped_by is not None:
            known = json.loads(event.body)
            group = message_group(known.get("data"), self.grouped_by) or known.get(GROUP_EXTENSION)
            if group is None and self.is_fifo:
                raise Unpublishable(f"it has no message group: its data has no {self.grouped_by!r}")
        return replace(event, group=group)

    def message(self, event: OutgoingEvent, run: str, **marks: Any) -> dict[str, Any]:
        """Return an event as a message to its queue, with these attributes beside its type.

        SQS would drop an event whose own id it has seen in the last five minutes. So the id for a
        FIFO queue is another in each `run` of a command.
        """
        identity = sha256(f"{run} {event.id}".encode()).hexdigest()
        return {
            "MessageBody": event.body,
            "MessageAttributes": {EVENT_TYPE_ATTRIBUTE: text(event.type), **marks},
            **({} if event.group is None else {"MessageGroupId": event.group}),
            **({"MessageDeduplicationId": identity} if self.is_fifo else {}),
        }

    def key(self, event: cloud_event.CloudEvent) -> str | None:
        """Return the dedup key of an event; None if its rule or its volatile fields are not known.

        Raises:
            NoKey, TooLarge: the consumer would reject the event for its key.
        """
        rule, content = self.keys.get(event.type), self.fingerprint(event)
        if rule is None or (content is None and rule == Key.content()):
            return None
        return rule.of(event, fingerprint=content or "", consumer=self.identity)

    def fingerprint(self, event: cloud_event.CloudEvent) -> str | None:
        """Return the fingerprint of an event; None if its volatile fields are not known."""
        volatile = self.volatile.get(event.type, ()) if event.type in self.keys else None
        return None if volatile is None else fingerprint(event, volatile=volatile)


@dataclass(frozen=True, slots=True)
class DeployedCommands:
    """A function with commands; `url` is that of its HTTP API, None without one of its own."""

    name: str
    function_name: str
    commands: tuple[str, ...]
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedWebhooks:
    """Resources of the webhook ingress: its URL has a slash at its end, its secrets are ARNs."""

    service: str
    identity: str
    url: str
    captures: str
    endpoints: Mapping[str, Endpoint]
    secrets: Mapping[str, str]

    @classmethod
    def of(cls, service: str, outputs: Mapping[str, str]) -> Self | None:
        """Read the outputs of all stacks, by output key; None without an ingress.

        Raises:
            KeyError: an output is missing.
        """
        if StackOutput.WEBHOOK_URL not in outputs:
            return None
        try:
            known = map(Endpoint.of_builtins, json.loads(outputs[StackOutput.WEBHOOK_ENDPOINTS]))
            endpoints = {each.name: each for each in known}
        except (TypeError, ValueError) as error:
            raise OpsError(
                f"the endpoints in the outputs of {service!r} cannot be read ({error}): use the "
                "version of `once` that it was deployed with, or deploy it again"
            ) from None
        words = {name: "".join(map(str.capitalize, name.split("-"))) for name in endpoints}
        return cls(
            service=service,
            identity=outputs[StackOutput.WEBHOOK_FUNCTION].removeprefix(f"{service}-"),
            url=f"{outputs[StackOutput.WEBHOOK_URL].rstrip('/')}/",
            captures=outputs[StackOutput.CAPTURES],
            endpoints=endpoints,
            secrets={n: outputs[f"{StackOutput.ENDPOINT_SECRET}{w}"] for n, w in words.items()},
        )

    def endpoint(self, name: str) -> Endpoint:
        return _named(self.endpoints, name, f"{self.service!r} has no endpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Resources of a deployment; consumers, commands and tables by their logical names.

    A part that no line of the registry needs is None: the topics of the producers, the FIFO one
    for ordered types; relay and topic of the consumers' events; the schedule group of due events;
    the unrouted queue and the sweep queue; the claim-check bucket; the webhook ingress.
    """

    service: str
    dedup_table: str
    operator_log: str
    tables: Mapping[str, str]
    consumers: Mapping[str, DeployedConsumer]
    commands: Mapping[str, DeployedCommands] = field(default_factory=dict)
    ingress_topic_arn: str | None = None
    ordered_ingress_topic_arn: str | None = None
    events_topic_arn: str | None = None
    relay_function_name: str | None = None
    relay_dead_letter_url: str | None = None
    schedule_group_name: str | None = None
    unrouted_queue_url: str | None = None
    sweep_queue_url: str | None = None
    claim_bucket: str | None = None
    webhooks: DeployedWebhooks | None = None

    @classmethod
    def find(cls, service: str = "once") -> Self:
        """Find a deployment by its name, in the account and region that the environment names."""
        cloudformation: CloudFormationClient = client("cloudformation")
        outputs: dict[str, str] = {}
        names = deque([f"{service}-state", f"{service}-service"])
        while names:
            name = names.popleft()
            try:
                [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
            except ClientError as error:
                if "does not exist" not in str(error):
                    raise
                found = ", ".join(_services(cloudformation)) or "none that can be seen"
                raise OpsError(
                    f"there is no stack {name!r} in {cloudformation.meta.region_name}: deploy "
                    "first (`cdk deploy --all`), or name the deployment with --service, or the "
                    f"region with AWS_REGION; services there: {found}"
                ) from None
            outputs |= {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
            names.extend(filter(None, outputs.pop(StackOutput.FURTHER_STACKS, "").split(",")))
        return cls.of(service, outputs)

    @classmethod
    def of(cls, service: str, outputs: Mapping[str, str]) -> Self:
        """Read the outputs of all stacks, by output key."""
        try:
            words = _with_prefix(outputs, StackOutput.FUNCTION)
            consumers = [_consumer(outputs, service, word) for word in words]
            tables = _with_prefix(outputs, StackOutput.TABLE).items()
            return cls(
                service=service,
                dedup_table=outputs[StackOutput.DEDUP_TABLE],
                operator_log=outputs[StackOutput.OPERATOR_LOG],
                tables={re.sub(r"\B(?=[A-Z])", "_", word).lower(): name for word, name in tables},
                consumers={consumer.name: consumer for consumer in consumers},
                commands={each.name: each for each in _commands(outputs, service)},
                ingress_topic_arn=outputs.get(StackOutput.INGRESS_TOPIC),
                ordered_ingress_topic_arn=outputs.get(StackOutput.ORDERED_INGRESS_TOPIC),
                events_topic_arn=outputs.get(StackOutput.EVENTS_TOPIC),
                relay_function_name=outputs.get(StackOutput.RELAY_FUNCTION),
                relay_dead_letter_url=outputs.get(StackOutput.RELAY_DEAD_LETTERS),
                schedule_group_name=outputs.get(StackOutput.SCHEDULE_GROUP),
                unrouted_queue_url=outputs.get(StackOutput.UNROUTED_QUEUE),
                sweep_queue_url=outputs.get(StackOutput.SWEEP_QUEUE),
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
        """The names that consumers' dedup keys begin with; lines of a rename share one."""
        return [*dict.fromkeys(each.identity for each in self.consumers.values())]

    @property
    def sources(self) -> list[str]:
        """The CloudEvents sources of producers that its lines name, and that of `once send`."""
        found = [SEND_SOURCE]
        for one in self.consumers.values():
            match one.source:
                case EventBridgeSource(sources, envelope_id=True):
                    found += sources
                case SnsSource(topic, is_plain=True):
                    found.append(topic)
                case S3Source(str() as bucket):
                    found.append(f"arn:aws:s3:::{bucket}")
                case ScheduleSource():
                    found.append(f"{self.service}-{one.identity}")
        return [*dict.fromkeys(found)]

    def is_ordered(self, event_type: str) -> bool:
        """Tell whether a FIFO consumer takes a type, so that it is published to a FIFO topic."""
        return any(one.is_fifo for one in self.takers(event_type))

    def ingress_topic(self, event_type: str) -> str:
        ordered = self.ordered_ingress_topic_arn if self.is_ordered(event_type) else None
        return (
            ordered
            or self.ingress_topic_arn
            or self._no_part("ingress topic: no consumer takes events of producers from it")
        )

    @property
    def relay(self) -> str:
        return self.relay_function_name or self._no_part("outbox relay: no consumer publishes")

    @property
    def schedule_group(self) -> str:
        return self.schedule_group_name or self._no_part(
            'schedule group: it publishes nothing later; publishes_later=("payment.overdue",) in a '
            "line of the registry adds it"
        )

    @property
    def kept_events(self) -> dict[str, str]:
        """URLs of the queues of the relay and of unrouted events, by `RELAY` and `UNROUTED`."""
        urls = {RELAY: self.relay_dead_letter_url, UNROUTED: self.unrouted_queue_url}
        return {owner: url for owner, url in urls.items() if url is not None}

    def _no_part(self, part: str) -> NoReturn:
        raise OpsError(f"{self.service!r} has no {part}")

    def group_field(self, event_type: str) -> str | None:
        """Return the field of the data that gives the message group of a type, if it has one."""
        return next(filter(None, (one.grouped_by for one in self.takers(event_type))), None)

    def takers(self, event_type: str) -> list[DeployedConsumer]:
        return [one for one in self.consumers.values() if event_type in one.event_types]

    def consumer(self, name: str) -> DeployedConsumer:
        return _named(self.consumers, name, f"{self.service!r} has no consumer")

    def door(self, name: str) -> DeployedCommands:
        return _named(self.commands, name, f"{self.service!r} has no commands")

    def table(self, name: str) -> str:
        """Return the physical name of a business table."""
        return _named(self.tables, name, f"{self.service!r} has no table")


def _named(known: Mapping[str, _T], name: str, fault: str) -> _T:
    if name not in known:
        raise NotFoundError(f"{fault} {name!r}: choose one of {', '.join(known)}")
    return known[name]


def _services(cloudformation: "CloudFormationClient") -> list[str]:
    """Return the names of the services in the account and region, if all stacks may be listed."""
    with suppress(ClientError):
        pages = cloudformation.get_paginator("describe_stacks").paginate()
        names = {stack["StackName"] for page in pages for stack in page["Stacks"]}
        found = {each.removesuffix("-state") for each in names if each.endswith("-state")}
        return sorted(each for each in found if f"{each}-service" in names)
    return []


def _consumer(outputs: Mapping[str, str], service: str, word: str) -> DeployedConsumer:
    function = outputs[f"{StackOutput.FUNCTION}{word}"]
    taken = json.loads(outputs[f"{StackOutput.EVENT_TYPES}{word}"])
    return DeployedConsumer(
        # The function's name contains the consumer's name unchanged; the output's key does not.
        name=function.removeprefix(f"{service}-"),
        queue_url=outputs[f"{StackOutput.QUEUE}{word}"],
        dead_letter_url=outputs[f"{StackOutput.DEAD_LETTERS}{word}"],
        function_name=function,
        external=tuple(taken["external"]),
        events=tuple(taken["events"]),
        isolation_queue_url=outputs.get(f"{StackOutput.ISOLATION_QUEUE}{word}"),
        identity=outputs[f"{StackOutput.IDENTITY}{word}"],
        keys={
            event_type: Key(rule[0], tuple(rule[1:]))
            for event_type, rule in taken["keys"].items()
            if rule and rule[0] in RULES
        },
        volatile={
            event_type: None if names is None else tuple(names)
            for event_type, names in taken["volatile"].items()
        },
        item_table=taken.get("item_table"),
        item_key=tuple(taken.get("item_key", ())),
        grouped_by=taken["grouped_by"],
        source=Source.of_builtins(taken["source"]) if "source" in taken else None,
        queue_rules=json.loads(outputs.get(f"{StackOutput.QUEUE_RULES}{word}", "{}")),
        contract={
            end: value
            for end, value in _with_prefix(outputs, word).items()
            if end.startswith(tuple(ExternalOutput))
        },
    )


def _commands(outputs: Mapping[str, str], service: str) -> Iterator[DeployedCommands]:
    for word, function in _with_prefix(outputs, StackOutput.COMMANDS_FUNCTION).items():
        commands = tuple(outputs[f"{StackOutput.COMMANDS}{word}"].split(","))
        url = outputs.get(f"{StackOutput.COMMANDS_URL}{word}")
        yield DeployedCommands(function.removeprefix(f"{service}-"), function, commands, url)


def _with_prefix(outputs: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the outputs whose key has a prefix, by the rest of the key, sorted."""
    return {
        key.removeprefix(prefix): outputs[key] for key in sorted(outputs) if key.startswith(prefix)
    }
