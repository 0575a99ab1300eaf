"""Replay: captured webhooks are sent again, their events to a queue or the requests to a URL."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError
from typer import Argument, BadParameter, Option

from once.errors import OnceError
from once.events.identity import consumer_of, key_hash
from once.events.outgoing import ClaimPlace, OutgoingEvent
from once.failures.quarantine import text
from once.names import CLOCK_MARGIN_SECONDS, Limits, Record
from once.ops import dedup_records, operator_changes, terminal
from once.ops.aws.clients import RateLimiter, client
from once.ops.aws.deployment import MAX_EVENT_BYTES, DeployedConsumer, Deployment
from once.ops.errors import OpsError, unexpected_error_text
from once.ops.webhooks._http import (
    HttpDestination,
    NoResponse,
    NotSent,
    Unsendable,
    is_public,
    send_request,
)
from once.ops.webhooks.capture_text import capture_line, standing_text
from once.ops.webhooks.captures import (
    SEARCH_PERIOD,
    CaptureFilter,
    CaptureOptions,
    Captures,
    webhooks_of,
)
from once.webhooks.captured_webhook import Capture, CaptureStanding
from once.webhooks.endpoint import Endpoint
from once.webhooks.webhook import rebuilt_event

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

QUEUE_MARK = "replay"
"""Message attribute of an event that is a replay. It stays with a dead letter, unlike `once-`."""

MAX_LINES = 50
"""Maximum number of webhooks that a text lists."""

MAX_FAILURES = 3
"""After so many webhooks in a row that could not be sent, the rest is not tried."""

_FIRST_REFUSAL = 300
_STAY_SECONDS = Limits.QUEUE_STAY_SECONDS + CLOCK_MARGIN_SECONDS
_NOT_PUBLIC = (
    "which is not a public address: give --allow-private if it may receive customers' data"
)


class ReplayOutcome(StrEnum):
    """ReplayOutcome of a replay for one webhook."""

    SENT = "sent"
    WOULD_BE_SENT = "would-be-sent"
    NOT_SENT = "not-sent"
    REFUSED = "refused"
    """The receiver has it, and answered with an error."""
    PERHAPS_SENT = "perhaps-sent"


DONE = {ReplayOutcome.SENT, ReplayOutcome.WOULD_BE_SENT}


def mark() -> str:
    """Return the value of the marks: the time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def resend(destination: HttpDestination, capture: Capture, body: bytes) -> int:
    """Send a request as it was captured, with a mark; return the status of its answer.

    Raises:
        NotSent, Unsendable, NoResponse: as `send_request`.
    """
    headers = {**capture.headers, "once-replay": mark()}
    return send_request(destination, capture.method, headers, body)


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """A URL: it receives the bytes of the body and the captured headers."""

    destination: HttpDestination

    def prepare(self, capture: Capture, body: bytes) -> tuple[Capture, bytes]:
        """Return the webhook itself: every one can be sent to a URL."""
        return capture, body

    def send(self, prepared: tuple[Capture, bytes]) -> str:
        """Send a webhook, and return the status of the answer.

        Raises:
            NotSent, NoResponse: there is no answer.
        """
        status = resend(self.destination, *prepared)
        if status >= _FIRST_REFUSAL:
            raise OpsError(f"the receiver answered {status}")
        return str(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTarget:
    """The queue of a consumer: it receives the event as the relay publishes it.

    Without `records`, it also receives what the consumer may have forgotten. With
    `takes_conflicts`, it receives a webhook that differs from an earlier one of its key.
    """

    sqs: "SQSClient"
    deployment: Deployment
    endpoints: Mapping[str, Endpoint]
    consumer: DeployedConsumer
    records: dedup_records.DedupRecordReader | None
    takes_conflicts: bool
    run: str = field(default_factory=lambda: str(uuid4()))

    def prepare(self, capture: Capture, body: bytes) -> dict[str, Any]:
        """Return the message with the event of a webhook.

        Raises:
            OnceError: it has no event, or no message group.
        """
        if capture.standing is CaptureStanding.CONFLICT and not self.takes_conflicts:
            raise OpsError(
                f"{standing_text(capture)}; compare the two (`once webhooks show ID`), then name "
                "it, or give --standing conflict"
            )
        event = self._event(capture, body)
        if event.type not in self.consumer.events:
            raise OpsError(
                f"{self.consumer.name!r} takes no {event.type!r}: add it to events= of the "
                "consumer, and deploy"
            )
        # The dedup records of its consumers are younger than the webhook's, and expire later. A
        # message stays in queues for some days, and must arrive before they expire.
        records = self.records and self.records.get([capture.pk])
        expiry = records and dedup_records.time_attribute(records[0], Record.EXPIRES_AT)
        is_kept = expiry and expiry.timestamp() >= time.time() + _STAY_SECONDS
        if self.records and not is_kept:
            raise OpsError(
                "its dedup record expires soon or is gone, so that a consumer may have processed "
                "and forgotten it: look there, and give --unsafe to send it nevertheless"
            )
        grouped = self.consumer.with_group(event)
        return self.consumer.message(grouped, self.run, **{QUEUE_MARK: text(mark())})

    def send(self, prepared: dict[str, Any]) -> str:
        """Send a message, and return its id.

        Raises:
            NotSent: SQS refuses it.
            NoResponse: SQS did not answer.
        """
        try:
            answer = self.sqs.send_message(QueueUrl=self.consumer.queue_url, **prepared)
        except ClientError as error:
            raise NotSent(str(error)) from None
        except BotoCoreError as error:
            raise NoResponse(str(error)) from None
        return str(answer["MessageId"])

    def _event(self, capture: Capture, body: bytes) -> OutgoingEvent:
        endpoint = self.endpoints.get(capture.endpoint)
        if endpoint is None:
            raise OpsError(
                f"the deployment has no endpoint {capture.endpoint!r} any more, whose rules make "
                "the event: send it to a URL"
            )
        bucket, publisher = self.deployment.claim_bucket, consumer_of(capture.pk)
        event_type = capture.event_type or endpoint.event_type(capture.webhook_type)
        event, claim = rebuilt_event(
            capture,
            body,
            endpoint,
            group_field=self.deployment.group_field(event_type),
            claims=None if bucket is None else ClaimPlace(bucket, publisher, MAX_EVENT_BYTES),
        )
        if claim is not None and capture.event_type is None:
            raise OpsError(
                "its data is too large for a message, and only the ingress may store it: send it "
                "to a URL"
            )
        return event


@dataclass(frozen=True, kw_only=True)
class ReplayRequest(CaptureOptions):
    """Options of a replay. Ids name the webhooks, or else the conditions select them."""

    names: Annotated[list[str] | None, Argument(metavar="ID", help="As for `show`.")] = None
    queue: Annotated[
        str | None,
        Option(
            "--to-queue", metavar="CONSUMER", help="Send their events to this consumer's queue."
        ),
    ] = None
    url: Annotated[
        str | None,
        Option("--to-url", metavar="URL", help="Send the requests themselves to this URL."),
    ] = None
    allow_private: Annotated[
        bool, Option("--allow-private", help="With --to-url: allow addresses that are not public.")
    ] = False
    unsafe: Annotated[
        bool,
        Option("--unsafe", help="With --to-queue: send also what a consumer may have forgotten."),
    ] = False
    rate: Annotated[float, Option(min=0.1, help="Maximum number of webhooks a second.")] = 10
    limit: Annotated[
        int, Option(min=1, help="Maximum number of webhooks; if more match, none is sent.")
    ] = 1000

    @cached_property
    def selected(self) -> CaptureFilter:
        """The conditions of the webhooks, or of the search for their ids."""
        return self.conditions(SEARCH_PERIOD)

    def plan(self, deployment: Deployment, captures: Captures) -> "ReplayRun":
        """Check the options, find the webhooks, and return a run that only judges them."""
        if not self.names and self.since is None:
            raise BadParameter("name webhooks by ID, or give --since")
        if (self.queue is None) is (self.url is None):
            raise BadParameter("give --to-queue CONSUMER or --to-url URL, and not both")
        if self.allow_private and self.url is None:
            raise BadParameter("is for --to-url", param_hint="--allow-private")
        if self.unsafe and self.queue is None:
            raise BadParameter("is for --to-queue", param_hint="--unsafe")
        target = self._target(deployment)
        return ReplayRun(self, captures, target, self._chosen(captures), dry_run=True)

    def _target(self, deployment: Deployment) -> UrlTarget | QueueTarget:
        if self.url is not None:
            rule = None if self.allow_private else is_public
            return UrlTarget(HttpDestination.of(self.url, "--to-url", rule, _NOT_PUBLIC))
        records = dedup_records.DedupRecordReader.of(client("dynamodb"), deployment)
        return QueueTarget(
            sqs=client("sqs"),
            deployment=deployment,
            endpoints=webhooks_of(deployment).endpoints,
            consumer=deployment.consumer(self.queue or ""),
            records=None if self.unsafe else records,
            takes_conflicts=bool(self.names) or self.standing is CaptureStanding.CONFLICT,
        )

    def _chosen(self, captures: Captures) -> list[Capture]:
        if self.names:
            found = captures.by_ids(self.names, self.selected)
        else:
            found = [*islice(captures.matching(self.selected), self.limit + 1)]
        if len(found) > self.limit:
            raise OpsError(
                f"more than {self.limit} webhooks match, and nothing was sent: narrow the choice, "
                "or raise --limit"
            )
        return sorted(found, key=lambda capture: capture.received_at)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """ReplayResult of one webhook; `detail` is the answer, or the reason why it was not sent.

    `answered` is false if the target took no request, or gave no answer.
    """

    capture: Capture
    outcome: ReplayOutcome
    detail: str
    answered: bool = True

    def as_json(self) -> dict[str, Any]:
        return {
            "endpoint": self.capture.endpoint,
            "webhook_id": self.capture.webhook_id or None,
            "type": self.capture.webhook_type or None,
            "key_hash": key_hash(self.capture.pk),
            "outcome": str(self.outcome),
            "detail": self.detail,
        }

    def __str__(self) -> str:
        words = str(self.outcome).replace("-", " ")
        more = f": {self.detail}" if self.detail else ""
        return f"{capture_line(self.capture)}  {words}{more}"


@dataclass(slots=True)
class ReplayRun:
    """Run of a replay: each webhook, the oldest first, is read, judged and sent."""

    asked: ReplayRequest
    captures: Captures
    target: UrlTarget | QueueTarget
    chosen: Sequence[Capture]
    dry_run: bool
    results: list[ReplayResult] = field(default_factory=list)

    def run(self, seen: Callable[[], object] = lambda: None) -> None:
        """Send the webhooks; `seen` is called after each."""
        limiter = RateLimiter(self.asked.rate)
        failures = 0
        for capture in self.chosen:
            result = self._result(capture, limiter)
            self.results.append(result)
            seen()
            failures = 0 if result.answered else failures + 1
            if failures == MAX_FAILURES:
                raise OpsError(
                    f"{failures} webhooks in a row could not be sent, and the rest was not tried: "
                    f"{result.detail}"
                )

    @contextmanager
    def sending(self, deployment: Deployment, why: str | None) -> Iterator["ReplayRun"]:
        """Yield the run that sends the webhooks of this plan, with entries in the operator log."""
        # The destination was resolved for the plan: no later answer of a name server counts.
        sent = replace(self, dry_run=False, results=[])
        asked, target = self.asked, self.target
        hashes = [sha256(name.encode(errors="replace")).hexdigest() for name in asked.names or ()]
        arguments = {
            **asked.selected.for_log(),
            "ids": [f"SHA-256 {each}" for each in hashes],
            "to_queue": asked.queue,
            # Of a URL, the path and the query may hold a password.
            "to_host": target.destination.host if isinstance(target, UrlTarget) else None,
            "unsafe": asked.unsafe,
        }
        with operator_changes.logged_change(
            deployment, "webhooks replay", arguments, why
        ) as change:
            try:
                yield sent
            finally:
                change.counts = sent.counts
                if isinstance(target, QueueTarget):
                    taken = (one for one in sent.results if one.outcome is ReplayOutcome.SENT)
                    change.message_ids = [one.detail for one in taken]
        sent.raise_if_left()

    @property
    def counts(self) -> dict[str, int]:
        return {str(one): self.number(one) for one in ReplayOutcome if self.number(one)}

    def number(self, *outcomes: ReplayOutcome) -> int:
        return sum(one.outcome in outcomes for one in self.results)

    @property
    def stopped_text(self) -> str:
        doubts = [one for one in self.results if one.outcome is ReplayOutcome.PERHAPS_SENT]
        told = "".join(f"\n  perhaps sent: {capture_line(one.capture)}" for one in doubts)
        untouched = len(self.chosen) - len(self.results)
        return (
            f"stopped: {self.number(ReplayOutcome.SENT)} certainly sent; in doubt: {len(doubts)}; "
            f"not tried: {untouched}. Run the command again: a consumer recognises what it "
            f"receives twice, and a URL receives it again{told}"
        )

    def raise_if_left(self) -> None:
        """Raise an OpsError with the webhooks that were not sent, if there are any."""
        left = [one for one in self.results if one.outcome not in DONE]
        if left:
            lines = "".join(f"\n  {one}" for one in left[:MAX_LINES])
            raise OpsError(
                f"{terminal.counted(len(left), 'webhook')} not sent, or not accepted:{lines}"
            )

    def _result(self, listed: Capture, limiter: RateLimiter) -> ReplayResult:
        target: Any = self.target  # takes what it has prepared
        try:
            capture = self.captures.get(listed.pk)
            prepared = target.prepare(capture, self.captures.body(capture))
        except (OnceError, OpsError) as error:
            return ReplayResult(listed, ReplayOutcome.NOT_SENT, str(error))
        except Exception as error:  # one capture must not stop the replay
            return ReplayResult(listed, ReplayOutcome.NOT_SENT, unexpected_error_text(error))
        if self.dry_run:
            return ReplayResult(listed, ReplayOutcome.WOULD_BE_SENT, "")
        limiter.wait(1)
        # The error tells whether the receiver may have the webhook: one that was not sent may go
        # again, one without an answer must be looked up there first.
        try:
            return ReplayResult(listed, ReplayOutcome.SENT, target.send(prepared))
        except NotSent as error:
            is_cause = isinstance(error, Unsendable)  # of the webhook, and not of the target
            return ReplayResult(listed, ReplayOutcome.NOT_SENT, str(error), answered=is_cause)
        except NoResponse as error:
            return ReplayResult(listed, ReplayOutcome.PERHAPS_SENT, str(error), answered=False)
        except OpsError as error:
            return ReplayResult(listed, ReplayOutcome.REFUSED, str(error))
        except KeyboardInterrupt:
            self.results.append(
                ReplayResult(listed, ReplayOutcome.PERHAPS_SENT, "stopped meanwhile")
            )
            raise
