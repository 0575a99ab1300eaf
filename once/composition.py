"""Composition root: the one place where the objects of a consumer's function are put together.

They are created when the function is loaded, and live as long as it is warm. Objects that live as
long as one invocation are created in `once.batch.processor`.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from once.batch.group_commit import GroupCommitter
from once.batch.group_size import GroupSize
from once.batch.handler_runner import HandlerRunner
from once.batch.isolation import Isolation
from once.batch.processor import BatchProcessor
from once.batch.state_machine import MessageStateMachine
from once.commit.committer import Committer
from once.effects.declaration import Effect
from once.effects.executor import EffectExecutor
from once.effects.ledger import EffectLedger
from once.errors import Refusal
from once.failures.circuit_breaker import CircuitBreaker
from once.failures.failure_handler import FailureHandler
from once.intake.reader import RecordReader
from once.registration import Completion, Handler, Rejection
from once.runtime import Runtime
from once.transaction import read_item

if TYPE_CHECKING:
    from once.claim_check import ClaimStore


def compose(
    runtime: Runtime,
    *,
    handlers: Mapping[str, Handler],
    rejections: Mapping[type[Refusal], Rejection],
    effects: Mapping[str, Effect],
    completions: Mapping[str, Completion],
) -> BatchProcessor:
    """Return the batch processor of a consumer.

    Args:
        runtime: the clients and settings of the function.
        handlers: the handlers, by event type.
        rejections: the answers to business refusals, by the refusal's class.
        effects: the calls to the outside world, by name.
        completions: the functions that record an outcome, by the name of the effect.
    """
    settings, clock = runtime.settings, runtime.clock
    dynamodb, sqs, logger = runtime.dynamodb, runtime.sqs, runtime.logger
    committer = Committer.of(dynamodb, settings, clock)
    breaker = CircuitBreaker(settings, clock)
    failures = FailureHandler(sqs, settings, logger, breaker)
    claims = _claim_store(runtime)
    runner = HandlerRunner(settings, partial(read_item, dynamodb), rejections, completions, claims)
    ledger = EffectLedger(
        dynamodb, settings.dedup_table, clock, logger, settings.lease_margin_seconds
    )
    executor = EffectExecutor(effects, rejections.keys(), ledger, settings.effect_timeout_seconds)
    reader = RecordReader(settings, handlers, clock, claims)
    machine = MessageStateMachine(runtime, reader, committer, runner, executor, breaker, failures)
    # The outcome of an effect commits before the next intent does. Otherwise, a function that is
    # killed in between would leave pending effects that were never called.
    size = GroupSize(1 if effects else settings.group_size)
    isolation = Isolation(sqs, settings, logger)
    groups = GroupCommitter(machine, committer, isolation, breaker, size, settings.commit_threads)
    return BatchProcessor(runtime, reader, groups)


def _claim_store(runtime: Runtime) -> "ClaimStore | None":
    bucket = runtime.settings.claim_bucket
    if bucket is None or runtime.s3 is None:
        return None
    from once.claim_check import ClaimStore

    return ClaimStore(runtime.s3, bucket, runtime.settings.max_body_bytes)
