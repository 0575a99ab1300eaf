"""A consumer: the handlers of one queue, registered by decorators and checked when they load."""

import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from msgspec import Struct, field

from once.batch.hooks import Hook, HookFunction, hook_faults
from once.batch.isolation import Isolation
from once.batch.message import HandlerRunner, MessageSteps
from once.batch.processor import BatchProcessor, GroupSize
from once.business_tables import read_item
from once.commit.committer import Committer
from once.effects.concurrent_calls import ConcurrentCalls
from once.effects.declaration import (
    Effect,
    EffectDecorator,
    EffectFunction,
    OutcomeT,
    Policy,
    RequestT,
)
from once.effects.executor import EffectExecutor
from once.effects.ledger import EffectLedger
from once.errors import Refusal, RegistrationError
from once.events.identity import Key
from once.events.outgoing import ClaimPlace
from once.failures.circuit_breaker import CircuitBreaker
from once.failures.failure_handler import FailureHandler
from once.intake.reader import RecordReader
from once.intake.registration import (
    Completion,
    Handler,
    Registered,
    Rejection,
    effect_faults,
    item_dedup_faults,
)
from once.runtime.deadline import Context
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK, S3Client, logger_of, prepare_snapshot, s3_client, sqs_client
from once.settings import Dedup, Settings
from once.transaction import Transaction

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from once.former_records import FormerRecords


LambdaHandler = Callable[[dict[str, Any], Context], "PartialItemFailureResponse"]

EventT = TypeVar("EventT")
CauseT = TypeVar("CauseT")
"""The argument of a rejection or completion: the refusal, or the effect's outcome."""
RefusalT = TypeVar("RefusalT", bound=Refusal)
Handles = Callable[[EventT, Transaction], None]
HandlesCause = Callable[[EventT, CauseT, Transaction], None]

_BY_EVENT = Key.event()


class Runtime(Struct, frozen=True):
    """Everything outside of the library that a consumer works with. A test may replace each."""

    settings: Settings
    dynamodb: "DynamoDBClient"
    sqs: "SQSClient"
    logger: "Logger"
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    metrics: MetricsLog = field(default_factory=MetricsLog)
    s3: S3Client | None = None

    @classmethod
    def of(cls, settings: Settings, *, region: str | None = None) -> "Runtime":
        """Return the runtime of a deployed function, which finds its region in its environment."""
        return cls(
            settings=settings,
            dynamodb=boto3.client("dynamodb", region, config=SDK),
            sqs=sqs_client(region),
            logger=logger_of(settings.consumer),
            s3=None if settings.claim_bucket is None else s3_client(region),
        )


def committer_of(runtime: Runtime) -> Committer:
    """Return the committer for the `Dedup` of a consumer's settings."""
    dynamodb, settings, clock = runtime.dynamodb, runtime.settings, runtime.clock
    if settings.dedup is Dedup.RECORD:
        return Committer(dynamodb, settings, clock)
    # Loaded late: few consumers use it, and each module costs time at a cold start.
    from once.commit.item_dedup import ItemCommitter, PlainWriteCommitter

    kind = PlainWriteCommitter if settings.group_size == 1 else ItemCommitter
    return kind(dynamodb, settings, clock)


class Consumer(Registered):
    """The handlers, rejections and effects of one function, for the events of one queue.

    Args:
        name: the first part of every dedup key. It must never change while messages or records
            live.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.effects: dict[str, Effect[Any, Any]] = {}
        self.completions: dict[str, Completion] = {}
        self.hooks: list[Hook] = []

    def handles(
        self,
        event_type: str,
        model: type[EventT],
        *,
        key: Key = _BY_EVENT,
        volatile: tuple[str, ...] = (),
        former: "FormerRecords | None" = None,
    ) -> Callable[[Handles[EventT]], Handles[EventT]]:
        """Register a function for an event type.

        Args:
            event_type: the CloudEvents `type`.
            model: a msgspec.Struct, dataclass, TypedDict, NamedTuple, attrs class or pydantic
                model. The event's data is converted into it, strictly, or as a pydantic model is
                configured.
            key: the part of the event that identifies it.
            volatile: fields of the data that may differ between two deliveries of one event.
            former: the records of the deduplication that Once replaces (docs/migrating.md).

        Write `key` and `volatile` out in the call: synthesis reads them for `once dlq` and `once
        trace`, without running the code.
        """

        def register(function: Handles[EventT]) -> Handles[EventT]:
            handler = Handler(event_type, model, function, key, frozenset(volatile), former)
            self._register(self.handlers, event_type, handler, event_type)
            return function

        return register

    def rejects(
        self, refusal: type[RefusalT]
    ) -> Callable[[HandlesCause[EventT, RefusalT]], HandlesCause[EventT, RefusalT]]:
        """Register the function for a business refusal. It commits with its own dedup record."""

        def register(function: HandlesCause[EventT, RefusalT]) -> HandlesCause[EventT, RefusalT]:
            what = getattr(refusal, "__name__", "")
            self._register(self.rejections, refusal, Rejection(refusal, function), what)
            return function

        return register

    def effect(
        self, name: str, model: type[RequestT], *, policy: Policy, key_lifetime_seconds: int = 0
    ) -> EffectDecorator[RequestT]:
        """Register a call to the outside world; `tx.perform` asks for it.

        Args:
            name: part of the provider's key. It must never change while effects are pending.
            model: the model of the request, which is kept as JSON until there is an outcome.
            policy: decides whether the effect is called again while its outcome is unknown.
            key_lifetime_seconds: the time for which the provider remembers a key, less a margin;
                only with Policy.PROVIDER_KEY.
        """

        def register(function: EffectFunction) -> Effect[RequestT, Any]:
            effect = Effect[RequestT, Any](name, model, policy, key_lifetime_seconds, function)
            self._register(self.effects, name, effect, f"the effect {name}")
            return effect

        return register

    def completes(
        self, effect: Effect[Any, OutcomeT]
    ) -> Callable[[HandlesCause[EventT, OutcomeT]], HandlesCause[EventT, OutcomeT]]:
        """Register the function that records an effect's outcome in its own commit."""

        def register(function: HandlesCause[EventT, OutcomeT]) -> HandlesCause[EventT, OutcomeT]:
            name = getattr(effect, "name", repr(effect))
            completion = Completion(effect, function)
            self._register(self.completions, name, completion, f"the outcome of {name}")
            return function

        return register

    def around(self, function: HookFunction) -> HookFunction:
        """Register a hook: a generator function with one `yield`, where the step runs.

        It is called with a `Step` for each handler, rejection, completion and effect that runs, and
        again when that runs again. The first hook is the outermost. An error that it raises counts
        as raised by the step, except around an effect's function that has begun: its own error
        counts, and its outcome is kept for the next delivery. Hooks of effects run in the effects'
        threads, each in the context of its message.
        """
        self._faults += hook_faults(function)
        self.hooks.append(contextmanager(function))
        return function

    @cached_property
    def lambda_handler(self) -> LambdaHandler:
        """The function's entry. The first access checks the registration.

        In Lambda, it is checked in any case once the function's module is loaded.

        Raises:
            RegistrationError: the handlers are inconsistent, or do not match the settings.
            SettingsError: in Lambda, if settings are missing or malformed.
        """
        self._check()
        if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
            runtime = Runtime.of(Settings.from_env())
            prepare_snapshot(runtime.sqs, *([runtime.s3] if runtime.s3 else []))
            return self.bound_to(runtime)

        # On a laptop or in a unit test there is no environment to check yet.
        def elsewhere(event: dict[str, Any], context: Context) -> "PartialItemFailureResponse":
            entry = self.lambda_handler  # `FakeAws` may have replaced it
            if entry is elsewhere:
                entry = self.bound_to(Runtime.of(Settings.from_env()))
            return entry(event, context)

        return elsewhere

    def start(self) -> None:
        self.lambda_handler  # noqa: B018

    def bound_to(self, runtime: Runtime) -> LambdaHandler:
        """Return the function's entry for a given runtime.

        Raises:
            RegistrationError: handlers, tables or name differ from the runtime's settings.
        """
        self._check(runtime.settings)
        return self._processor(runtime).handle

    def _processor(self, runtime: Runtime) -> BatchProcessor:
        """Put the objects of a function together, which live as long as it is warm."""
        settings, clock, logger = runtime.settings, runtime.clock, runtime.logger
        dynamodb, sqs = runtime.dynamodb, runtime.sqs
        claims = claim_place = None
        if settings.claim_bucket is not None and runtime.s3 is not None:
            # Loaded late: few consumers use it, and each module costs time at a cold start.
            from once.events.claim_check import ClaimStore

            bucket, most = settings.claim_bucket, settings.max_body_bytes
            claims = ClaimStore(runtime.s3, bucket, most)
            claim_place = ClaimPlace(bucket, settings.consumer, most)
        reader = RecordReader(settings, self.handlers, clock, claims)
        committer = committer_of(runtime)
        breaker = CircuitBreaker(settings, clock)
        table, margin = settings.dedup_table, settings.lease_margin_seconds
        ledger = EffectLedger(dynamodb, table, clock, logger, margin)
        read = partial(read_item, dynamodb)
        steps = MessageSteps(
            reader,
            committer,
            HandlerRunner(
                settings,
                read,
                self.rejections,
                self.completions,
                self.hooks,
                claims,
                claim_place,
            ),
            EffectExecutor(
                self.effects, self.rejections.keys(), ledger, settings.effect_timeout_seconds
            ),
            ConcurrentCalls(calls := max(1, settings.effect_concurrency)),
            breaker,
            clock,
            logger,
        )
        return BatchProcessor(
            threads=max(1, settings.commit_threads),
            calls=calls if self.effects else 0,
            margin_ms=settings.time_margin_ms,
            reader=reader,
            isolation=Isolation(sqs, settings, logger),
            steps=steps,
            committer=committer,
            breaker=breaker,
            # With one call at a time, the outcome of an effect commits before the next intent does.
            # Otherwise, a function that is killed in between would leave pending effects that were
            # never called.
            size=GroupSize(1 if self.effects and calls == 1 else settings.group_size),
            failures=FailureHandler(sqs, settings, logger, breaker, clock),
            logger=logger,
            metrics=runtime.metrics,
            clock=clock,
            sleep=runtime.sleep,
        )

    def _check(self, settings: Settings | None = None) -> None:
        faults = [*self._registration_faults()]
        if not self.handlers:
            faults.append(f"{self.name} handles nothing; add a function with @consumer.handles")
        faults += chain.from_iterable(map(effect_faults, self.effects.values()))
        faults += chain.from_iterable(one.faults() for one in self.completions.values())
        faults += [
            f"the effect {name!r} is declared or completed alone; give it both, @consumer.effect "
            "and @consumer.completes"
            for name in sorted(self.effects.keys() ^ self.completions.keys())
        ]
        if settings is not None:
            faults += self._disagreements(settings)
        if faults:
            raise RegistrationError(faults)

    def _disagreements(self, settings: Settings) -> list[str]:
        place = f"the declaration of {settings.consumer!r} in the CDK app"
        subscribed, handled = set(settings.event_types), set(self.handlers)
        faults = [
            f"{self.name} handles {name!r}, which its queue never gets; add it to "
            f"external= or events= of {place}"
            for name in sorted(handled - subscribed)
        ]
        faults += [
            f"{self.name} gets {name!r} and has no handler; add one, or take it out of {place}"
            for name in sorted(subscribed - handled)
        ]
        faults += self._deployment_faults(settings, place)
        if self.effects and not settings.effect_timeout_seconds:
            faults.append(
                f"{self.name} has effects, and no time for them; add effect_timeout_seconds= to "
                f"{place}"
            )
        if settings.dedup is Dedup.ITEM:
            faults += item_dedup_faults(self.handlers.values(), self.effects, settings)
        for handler in self.handlers.values():
            faults.extend(handler.source_faults(settings.event_source))
        return faults
