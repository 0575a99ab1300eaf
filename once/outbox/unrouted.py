"""Unrouted events: finds published events that no consumer's subscription takes, and keeps them.

The topics deliver to the sweep queue in SNS's own envelope, which carries any number of message
attributes. Events that a subscription takes are dropped here: the consumer has its own copy.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import msgspec
from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError

from once.errors import UNREADABLE, OnceError, PermanentError, Unparseable, summary_of
from once.failures.quarantine import allowed, carried, described, text
from once.intake.original_message import OriginalMessage, records_of, trace_header
from once.names import EVENT_TYPE_ATTRIBUTE, DeadLetterAttribute, Limits, Reason
from once.runtime.sdk import sqs_client, ssm_client
from once.settings import SweepSettings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from mypy_boto3_sqs import SQSClient


class NoType(PermanentError, reason=Reason.NO_TYPE):
    """Published without the message attribute by which queues select events."""


class UnsubscribedType(PermanentError, reason=Reason.UNSUBSCRIBED_TYPE):
    """Published with a type that no consumer subscribes to."""


class TooManyAttributes(PermanentError, reason=Reason.TOO_MANY_ATTRIBUTES):
    """Published with more message attributes than SQS accepts."""


class SnsAttribute(msgspec.Struct, frozen=True):
    """A message attribute in SNS's envelope. A binary value is in base64."""

    kind: str = msgspec.field(name="Type")
    value: str = msgspec.field(name="Value")


class SnsEnvelope(msgspec.Struct, frozen=True):
    """A published message, as SNS delivers it to a queue without raw delivery."""

    topic: str = msgspec.field(name="TopicArn")
    message: str = msgspec.field(name="Message")
    published_at: str = msgspec.field(name="Timestamp")
    attributes: dict[str, SnsAttribute] = msgspec.field(
        name="MessageAttributes", default_factory=dict
    )

    @classmethod
    def read(cls, body: str) -> Self:
        """Read the body of a message in the sweep queue.

        Raises:
            Unparseable: it is no envelope of SNS.
        """
        try:
            return msgspec.json.decode(body, type=cls)
        except UNREADABLE as error:
            raise Unparseable(f"not a notification of SNS: {error}") from None

    @property
    def types(self) -> frozenset[str] | None:
        """The event types that a filter policy compares; None if there is no such attribute."""
        attribute = self.attributes.get(EVENT_TYPE_ATTRIBUTE)
        if attribute is None or attribute.kind not in {"String", "String.Array"}:
            return None
        if attribute.kind == "String":
            return frozenset([attribute.value])
        try:
            values = json.loads(attribute.value)
        except UNREADABLE:
            values = None
        # No filter policy matches an array that is malformed.
        texts = values if isinstance(values, list) else []
        return frozenset(each for each in texts if isinstance(each, str))

    @property
    def original(self) -> OriginalMessage:
        """Body and attributes as the producer sent them, in the form of Lambda's SQS events."""
        attributes = {}
        for name, each in self.attributes.items():
            value = "binaryValue" if each.kind.startswith("Binary") else "stringValue"
            attributes[name] = {value: each.value, "dataType": each.kind}
        return OriginalMessage(self.message, attributes)


def unrouted(envelope: SnsEnvelope, subscribed: Collection[str]) -> OnceError | None:
    """Return the reason why no consumer receives an event; None if a subscription takes it.

    `subscribed` are the types that consumers subscribe to on its topic.
    """
    if (types := envelope.types) is None:
        return NoType(
            f"published without the message attribute {EVENT_TYPE_ATTRIBUTE!r} (a String with the "
            "event's type), by which queues select: the producer must set it"
        )
    if types.isdisjoint(subscribed):
        return UnsubscribedType(
            f"no consumer subscribes to {', '.join(sorted(types)) or 'an empty list of types'} on "
            "this topic: add the type to a consumer's declaration and deploy, or correct the "
            "producer"
        )
    # To consumers SNS delivers raw, and discards a message with more attributes than SQS takes.
    if len(envelope.attributes) > Limits.MESSAGE_ATTRIBUTES:
        return TooManyAttributes(
            f"published with {len(envelope.attributes)} message attributes; SQS accepts "
            f"{Limits.MESSAGE_ATTRIBUTES}, so it reached no consumer: the producer must send fewer"
        )
    return None


FURTHER_ROUTES_SECONDS = 10
"""Age at which the sweep reads the types of further stacks again."""


@dataclass(slots=True)
class FurtherRoutes:
    """The types that consumers in further stacks subscribe to, by the ARN of the topic.

    A further stack is deployed after the sweep, and writes its types into a parameter once their
    subscriptions exist. If the sweep's own settings had them, an event that is published in between
    would be dropped, and no queue would have it.
    """

    names: tuple[str, ...]
    ssm: Any
    _routes: list[dict[str, list[str]]] = field(default_factory=list)
    _until: float = 0.0

    def types(self, topic: str) -> list[str]:
        """Return the types that are subscribed to on a topic."""
        if self.names and time.monotonic() >= self._until:
            self._routes = [json.loads(text) for text in map(self._text, self.names) if text]
            self._until = time.monotonic() + FURTHER_ROUTES_SECONDS
        return [each for routes in self._routes for each in routes.get(topic, ())]

    def _text(self, name: str) -> str | None:
        """Return the value of a parameter; None until its stack is deployed."""
        try:
            return str(self.ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterNotFound":
                raise
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Reads the sweep queue, and sends unrouted events to the unrouted queue."""

    settings: SweepSettings
    further: FurtherRoutes
    sqs: "SQSClient"
    logger: Logger

    @classmethod
    def of(cls, settings: SweepSettings, *, region: str | None = None) -> Self:
        return cls(
            settings=settings,
            further=FurtherRoutes(settings.further_routes, ssm_client(region)),
            sqs=sqs_client(region),
            logger=Logger(),
        )

    def handle(self, event: Mapping[str, Any]) -> "PartialItemFailureResponse":
        """Process a batch; report the messages that could not be sent, which SQS delivers again."""
        records: Sequence[Mapping[str, Any]] = records_of(event, "aws:sqs")
        failed = []
        for record in records:
            try:
                self._sweep(record)
            except Exception as failure:  # must not affect the other messages
                facts = {"message_id": record["messageId"], "error": summary_of(failure)}
                self.logger.warning("not kept, will be retried", extra=facts)
                failed.append(record["messageId"])
        self.logger.info("swept", extra={"messages": len(records), "failed": len(failed)})
        return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}

    def _sweep(self, record: Mapping[str, Any]) -> None:
        body: str = record["body"]
        seen = {}
        why: OnceError | None
        try:
            envelope = SnsEnvelope.read(body)
        except Unparseable as error:
            # Sent to the sweep queue itself, and not by SNS. It is kept as it is.
            original, why = OriginalMessage(body, {}), error
        else:
            original = envelope.original
            why = unrouted(envelope, self.settings.routes.get(envelope.topic, ()))
            # Only now: Parameter Store need not be read for events that this stack routes.
            if isinstance(why, UnsubscribedType):
                why = unrouted(envelope, self.further.types(envelope.topic))
            seen = {DeadLetterAttribute.FIRST_SEEN: envelope.published_at}
        if why is None:
            return
        facts = {
            DeadLetterAttribute.REASON: why.reason,
            DeadLetterAttribute.ERROR: described(why),
            **seen,
        }
        body, attributes = carried(original, {n: text(allowed(v)) for n, v in facts.items()})
        self.sqs.send_message(
            QueueUrl=self.settings.unrouted_url,
            MessageBody=body,
            MessageAttributes=attributes,
            **trace_header(record.get("attributes") or {}),
        )
        about = {"message_id": record["messageId"], "reason": why.reason}
        self.logger.warning("unrouted", extra=about)
