"""Targets of a replay: the queue of a consumer, or a URL."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from once.errors import OnceError
from once.events.claimed_draft import ClaimPlace
from once.events.dedup_key import consumer_of
from once.events.message_group import message_group
from once.events.outgoing import GROUP_EXTENSION, OutgoingEvent
from once.failures.quarantine import text
from once.ops.aws.claims import MOST_BYTES
from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.errors import OpsError
from once.ops.webhooks._destination import Destination
from once.ops.webhooks._http_post import NotSent, Unanswered, send_request
from once.ops.webhooks._replay_safety import ReplaySafety
from once.ops.webhooks.capture_text import standing_text
from once.schema import EVENT_TYPE_ATTRIBUTE
from once.webhooks.capture import Capture, Standing
from once.webhooks.replay import rebuilt_event

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MARK = "once-replay"
"""Header of a request that is a replay, with the time of the replay."""

QUEUE_MARK = "replay"
"""Message attribute of an event that is a replay. It stays with a dead letter, unlike `once-`."""

_FIRST_REFUSAL = 300


class Target(Protocol):
    """The place that webhooks are sent to."""

    def prepare(self, capture: Capture, body: bytes) -> Any:
        """Return what `send` sends; raises OpsError if the webhook cannot be sent there."""

    def send(self, prepared: Any) -> str:
        """Send, and return the answer; raises NotSent, Unanswered or OpsError (refused)."""


def mark() -> str:
    """Return the value of the marks: the time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """A URL: it receives the bytes of the body and the captured headers."""

    destination: Destination

    def prepare(self, capture: Capture, body: bytes) -> tuple[Capture, bytes]:
        """Return the webhook itself: every one can be sent to a URL."""
        return capture, body

    def send(self, prepared: tuple[Capture, bytes]) -> str:
        """Send a webhook, and return the status of the answer.

        Raises:
            OpsError: the answer is a refusal, an error or a redirect.
            NotSent, Unanswered: there is no answer.
        """
        capture, body = prepared
        headers = {**capture.headers, MARK: mark()}
        status = send_request(self.destination, capture.method, headers, body)
        if status >= _FIRST_REFUSAL:
            raise OpsError(f"the receiver answered {status}")
        return str(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTarget:
    """The queue of a consumer: it receives the event as the relay publishes it.

    Attributes:
        sqs: an SQS client.
        deployment: the deployment.
        webhooks: its ingress.
        consumer: the consumer.
        safety: tells whether the consumer would still recognise a duplicate.
        takes_conflicts: whether a webhook is sent that differs from an earlier one of its key.
    """

    sqs: "SQSClient"
    deployment: Deployment
    webhooks: DeployedWebhooks
    consumer: DeployedConsumer
    safety: ReplaySafety
    takes_conflicts: bool
    run: str = field(default_factory=lambda: str(uuid4()))

    def prepare(self, capture: Capture, body: bytes) -> dict[str, Any]:
        """Return the message with the event of a webhook.

        Raises:
            OpsError: it has no event, the consumer does not take it, or would not recognise it.
        """
        if capture.standing is Standing.CONFLICT and not self.takes_conflicts:
            raise OpsError(
                f"{standing_text(capture)}; compare the two (`once webhooks show`), then name it, "
                "or give --standing conflict"
            )
        event = self._event(capture, body)
        if event.type not in self.consumer.events:
            raise OpsError(
                f"{self.consumer.name!r} takes no {event.type!r}: add it to events= of the "
                "consumer, and deploy"
            )
        self.safety.check(capture)
        return self._message(event)

    def send(self, prepared: dict[str, Any]) -> str:
        """Send a message, and return its id.

        Raises:
            NotSent: SQS refuses it.
            Unanswered: SQS did not answer.
        """
        try:
            answer = self.sqs.send_message(QueueUrl=self.consumer.queue_url, **prepared)
        except ClientError as error:
            raise NotSent(str(error)) from None
        except BotoCoreError as error:
            raise Unanswered(str(error)) from None
        return str(answer["MessageId"])

    def _event(self, capture: Capture, body: bytes) -> OutgoingEvent:
        endpoint = self.webhooks.endpoints.get(capture.endpoint)
        if endpoint is None:
            raise OpsError(
                f"the deployment has no endpoint {capture.endpoint!r} any more, whose rules make "
                "the event: send it to a URL"
            )
        bucket, publisher = self.deployment.claim_bucket, consumer_of(capture.pk)
        event_type = capture.event_type or endpoint.event_type(capture.webhook_type)
        try:
            rebuilt = rebuilt_event(
                capture,
                body,
                endpoint,
                group_field=self.deployment.group_field(event_type),
                claims=None if bucket is None else ClaimPlace(bucket, publisher, MOST_BYTES),
            )
        except OnceError as error:
            raise OpsError(str(error)) from None
        if rebuilt.claim is not None and capture.event_type is None:
            raise OpsError(
                "its data is too large for a message, and only the ingress may store it: send it "
                "to a URL"
            )
        return rebuilt.event

    def _message(self, event: OutgoingEvent) -> dict[str, Any]:
        attributes = {EVENT_TYPE_ATTRIBUTE: text(event.type), QUEUE_MARK: text(mark())}
        message: dict[str, Any] = {"MessageBody": event.body, "MessageAttributes": attributes}
        if self.consumer.grouped_by is None:
            return message
        known = json.loads(event.body)
        group = message_group(known.get("data"), self.consumer.grouped_by)
        group = group or known.get(GROUP_EXTENSION)
        if group is None and self.consumer.is_fifo:
            raise OpsError(f"it has no message group: its data has no {self.consumer.grouped_by!r}")
        # SQS would drop an event whose own id it has seen in the last five minutes.
        identity = sha256(f"{self.run} {event.id}".encode()).hexdigest()
        return {
            **message,
            **({} if group is None else {"MessageGroupId": group}),
            **({"MessageDeduplicationId": identity} if self.consumer.is_fifo else {}),
        }
