"""Runner: runs a command's handler, commits it with its answer, or returns the stored answer.

A repeated command is found by its commit: the condition on the dedup record fails, and DynamoDB
returns the record with the answer in the same response. So no request reads the record first.
Requests that run in parallel compete for that condition: the first commit wins, and the others
return its answer.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import boto3
from msgspec import Struct, field
from msgspec.structs import replace

from once.business_tables import read_item
from once.commands.answer import Reply
from once.commit.committer import Committer
from once.commit.result import CommitOutcome, CommitResult, hindered
from once.errors import (
    InProgress,
    InvalidData,
    InvalidWrite,
    KeyConflict,
    NoKey,
    OnceError,
    Refusal,
    RequestRefused,
    TooLarge,
    Unexpected,
    UnknownType,
    Unparseable,
)
from once.events.cloud_event import CloudEvent
from once.events.identity import command_key, fingerprint, key_hash
from once.events.outgoing import ClaimPlace
from once.intake.reader import DecodedEvent, converted
from once.intake.registration import Registered, refused_twice, rejection_of
from once.names import Metric
from once.runtime.deadline import Deadline
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK, S3Client, logger_of, s3_client
from once.settings import CommandSettings
from once.transaction import Identity, Transaction

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_dynamodb import DynamoDBClient

MAX_KEY_BYTES = 512
"""Longest key of a caller, in UTF-8."""

_LIMIT = "until the time was up; the command may be sent again under its key"


class CommandRuntime(Struct, frozen=True):
    """Everything outside of the library that commands work with. A test may replace each."""

    settings: CommandSettings
    dynamodb: "DynamoDBClient"
    logger: "Logger"
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    metrics: MetricsLog = field(default_factory=MetricsLog)
    s3: S3Client | None = None

    @classmethod
    def of(cls, settings: CommandSettings, *, region: str | None = None) -> Self:
        """Return the runtime of a deployed function, which finds its region in its environment."""
        return cls(
            settings=settings,
            dynamodb=boto3.client("dynamodb", region, config=SDK),
            logger=logger_of(settings.consumer),
            s3=None if settings.claim_bucket is None else s3_client(region),
        )


class CommandRunner:
    """Runs the commands of one function. `Commands.bound_to` makes it."""

    def __init__(self, registered: Registered, runtime: CommandRuntime) -> None:
        self.runtime = runtime
        self._registered = registered
        self._settings = runtime.settings

    @cached_property
    def _committer(self) -> Committer:
        return Committer(self.runtime.dynamodb, self._settings, self.runtime.clock)

    def deadline(self, seconds: float, remaining_ms: Callable[[], int] | None = None) -> Deadline:
        """Return the time for a command: these seconds from now, and the function's less a margin.

        `remaining_ms` is the function's, in milliseconds.
        """
        clock, margin_ms = self.runtime.clock, self._settings.time_margin_ms
        function_ms = None if remaining_ms is None else lambda: remaining_ms() - margin_ms
        return Deadline.at(clock() + seconds, clock, self.runtime.sleep, function_ms)

    def run(
        self,
        name: str,
        data: Any,
        *,
        key: str,
        scope: str,
        deadline: Deadline,
        trace: Mapping[str, str] = {},
    ) -> Reply:
        """See `Commands.run`. `trace` has the caller's `traceparent` and `tracestate`."""
        began, metric, key_of_logs = self.runtime.clock(), Metric.COMMANDS_FAILED, ""
        try:
            command = self._command(name, data, key, scope, trace, deadline)
            key_of_logs = key_hash(command.identity.pk)
            reply = self._answered(command, deadline)
        except KeyConflict:
            metric = Metric.COMMAND_CONFLICTS
            raise
        except (InvalidData, NoKey, Unparseable):
            metric = Metric.COMMANDS_INVALID
            raise
        except Exception as error:
            known = error if isinstance(error, OnceError) else Unexpected(error)
            fields = {"command": name, "key_hash": key_of_logs, "error": known.summary}
            self.runtime.logger.warning("command failed", extra=fields)
            raise
        else:
            metric = Metric.COMMANDS_REFUSED if reply.refusal else Metric.COMMANDS_COMMITTED
            metric = Metric.COMMANDS_REPEATED if reply.repeated else metric
            return reply
        finally:
            now = self.runtime.clock()
            figures = {metric: [1.0], Metric.COMMAND_MS: [round((now - began) * 1000, 3)]}
            with suppress(Exception):  # a committed command is answered, counted or not
                self.runtime.metrics.report(figures, now, command=name, key_hash=key_of_logs)
                self.runtime.metrics.flush()

    def _command(
        self,
        name: str,
        data: Any,
        key: str,
        scope: str,
        trace: Mapping[str, str],
        deadline: Deadline,
    ) -> DecodedEvent:
        consumer, handler = self._settings.consumer, self._registered.handlers.get(name)
        if handler is None:
            raise UnknownType(
                f"{consumer} has no command of this name: register one with @api.handles"
            )
        for text, what in ((key, "key"), (scope, "scope")):
            if not isinstance(text, str) or not text.strip():
                raise NoKey(f"the {what} of a command is a text that is not blank")
        try:
            pk = command_key(consumer, scope=scope, command=name, key=key)
        except UnicodeEncodeError:
            raise NoKey("key and scope of a command are Unicode text") from None
        if len(key.encode()) > MAX_KEY_BYTES:
            raise TooLarge(f"the key of a command has at most {MAX_KEY_BYTES} bytes in UTF-8")
        source = f"/commands/{consumer}"
        event = CloudEvent(id=key, source=source, type=name, data=data, extensions=dict(trace))
        try:
            content = fingerprint(event, volatile=handler.volatile, deadline=deadline)
        except ValueError:  # NaN, a lone surrogate, or an integer that no double holds
            raise InvalidData(f"the data of {name} is not strict JSON") from None
        former = None
        if handler.former is not None:
            # Only former= sees the scope, which is neither stored nor published.
            names = self._settings.tables[handler.former.table.name].key
            former = handler.former.record_of(replace(event, subject=scope), names)
        identity = Identity(pk, content, former=former)
        return DecodedEvent(event, identity, handler, converted(event, handler))

    def _answered(self, command: DecodedEvent, deadline: Deadline) -> Reply:
        try:
            return self._committed(command, deadline)
        except KeyConflict:
            raise
        except Exception:
            # Perhaps an earlier request has committed, and changed what the handler reads; or a
            # newer model no longer takes its data.
            known: CommitResult | None = None
            with suppress(OnceError):
                [known] = self._committer.look_up([self._empty(command)])
            if known is None:
                raise
        return self._repeated(known)

    def _committed(self, command: DecodedEvent, deadline: Deadline) -> Reply:
        attempt = 0
        transaction, reply = self._handled(command)
        while True:
            request = self._committer.request(transaction, self.runtime.clock())
            result = self._committer.commit_alone(request, deadline)
            match result:
                case CommitResult(CommitOutcome.COMMITTED):
                    return reply
                case CommitResult(CommitOutcome.DUPLICATE):
                    return self._repeated(result)
                case CommitResult(CommitOutcome.REFUSED, Refusal() as refusal):
                    if transaction.refusal is not None:
                        raise refused_twice(refusal)
                    answer = transaction.refused(refusal, keep_reads=False)
                    transaction, reply = self._refused(command, answer)
                case CommitResult(CommitOutcome.STALE) if deadline.pause(attempt):
                    attempt += 1
                    transaction, reply = self._handled(command)
                case CommitResult(on_record=True):
                    raise InProgress(f"another request under this key was running, {_LIMIT}")
                case _:
                    raise result.cause or hindered(result.outcome, _LIMIT)

    def _repeated(self, result: CommitResult) -> Reply:
        if result.answered is None:
            raise result.cause or RequestRefused("the record under the key keeps no answer")
        return Reply.stored(result.answered)

    def _empty(self, command: DecodedEvent) -> Transaction:
        settings, claims = self._settings, None
        if settings.claim_bucket is not None:
            most = settings.max_body_bytes
            claims = ClaimPlace(settings.claim_bucket, settings.consumer, most)
        read = partial(read_item, self.runtime.dynamodb)
        return Transaction(command.event, command.identity, settings, read=read, claims=claims)

    def _handled(self, command: DecodedEvent) -> tuple[Transaction, Reply]:
        """Run the handler, and the rejection if it raises a Refusal."""
        if isinstance(command.data, InvalidData):
            raise command.data
        transaction = self._empty(command)
        try:
            returned = command.handler.function(command.data, transaction)
        except Refusal as refusal:
            return self._refused(command, transaction.refused(refusal, keep_reads=True))
        return self._filled(transaction, returned)

    def _refused(self, command: DecodedEvent, answer: Transaction) -> tuple[Transaction, Reply]:
        """Run the rejection of a refusal, which fills the transaction `answer`."""
        rejection = rejection_of(self._registered.rejections, answer.refusal)
        try:
            returned = rejection.function(command.data, answer.refusal, answer)
        except Refusal as refusal:
            raise refused_twice(refusal) from None
        return self._filled(answer, returned)

    def _filled(self, transaction: Transaction, returned: Any) -> tuple[Transaction, Reply]:
        """Keep the answer in the transaction, and store the claims of its events."""
        if transaction.request is not None:
            raise InvalidWrite(
                "a command performs no effect, for which its caller would wait: publish an event, "
                "and let a consumer perform the effect"
            )
        refusal = transaction.refusal
        reply = Reply.of(returned, None if refusal is None else type(refusal).__name__)
        transaction.answer = reply.attribute()
        claims = [each.claim for each in transaction.drafts if each.claim is not None]
        if claims and self.runtime.s3 is not None:
            from once.events.claim_check import ClaimStore  # few functions have a bucket

            bucket, most = str(self._settings.claim_bucket), self._settings.max_body_bytes
            # Before the commit, which refers to them.
            ClaimStore(self.runtime.s3, bucket, most).write(claims)
        return transaction, reply
