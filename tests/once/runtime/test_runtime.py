"""The runtime: pauses, time left, and a function that is copied from a snapshot."""

import json
import os
import random
import signal
from collections.abc import Callable
from typing import Any

import boto3
import pytest
import snapshot_restore_py as hooks
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from once.consumer import Consumer
from once.runtime.deadline import Deadline, full_jitter
from once.settings import Settings
from once.testing import FakeAws, FakeContext
from tests.once.effects.provider import SETTINGS, Provider
from tests.once.effects.provider import consumer_of as consumer_at
from tests.once.support import calls, consumer_of, note, quick, record


@quick
@given(st.integers(0, 2000), st.floats(0.5, 100), st.floats(0.5, 1000))
def test_a_delay_lies_anywhere_between_zero_and_its_bound(
    attempt: int, base: float, cap: float
) -> None:
    bound = cap if attempt > 1000 else min(cap, base * 2**attempt)
    delays = [full_jitter(attempt, base=base, cap=cap) for _ in range(60)]
    assert 0 <= min(delays) <= max(delays) <= bound
    assert min(delays) < bound / 2 < max(delays)


@pytest.mark.usefixtures("longest_delays")
def test_pauses_double_up_to_a_second() -> None:
    slept: list[float] = []
    deadline = Deadline(lambda: 60_000, 0, slept.append)
    assert all(deadline.pause(attempt) for attempt in range(8))
    assert slept == [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize(("remaining_ms", "paused"), [(126, True), (125, False), (0, False)])
def test_a_pause_that_would_use_up_the_time_is_not_begun(
    *, remaining_ms: int, paused: bool
) -> None:
    slept: list[float] = []
    assert Deadline(lambda: remaining_ms, 100, slept.append).pause(0) is paused
    assert len(slept) == paused


def test_the_margin_is_kept_back_from_the_time_until_lambda_ends_the_function() -> None:
    deadline = Deadline(lambda: 12_345, 5_000)
    assert (deadline.seconds, deadline.seconds_to_the_end) == (7.345, 12.345)


# SnapStart: an initialized function is copied, here by `fork`.


Start = Callable[..., FakeAws]
Facts = dict[str, Any]


@pytest.fixture
def initialized(monkeypatch: pytest.MonkeyPatch) -> Callable[[Consumer, Settings], Any]:
    """Return the entry of a function with SnapStart, as it is when Lambda takes the snapshot."""
    monkeypatch.setattr(hooks, "_before_snapshot_registry", [])
    monkeypatch.setattr(hooks, "_after_restore_registry", [])
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "once-notes")
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")

    def initialize(consumer: Consumer, settings: Settings) -> Any:
        for name, value in settings.to_env().items():
            monkeypatch.setenv(name, value)
        handle = consumer.lambda_handler
        run(hooks.get_before_snapshot())
        return handle

    return initialize


def run(registered: list[Any]) -> None:
    for function, positional, named in registered:
        function(*positional, **named)


def restored(state: Any, serve: Callable[[], Facts], *, with_hooks: bool = True) -> Facts:
    """Return what a copy of this process serves; it begins with the generator of the snapshot."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a copy that waits for a lock of a thread which was not copied
        try:
            random.setstate(state)  # Python seeds it anew in a fork, and not in a restored copy
            if with_hooks:
                run(hooks.get_after_restore())
            os.write(writer, json.dumps(serve()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("with_hooks", [True, False])
def test_two_copies_serve_and_share_no_random_value(
    start: Start, initialized: Callable[..., Any], *, with_hooks: bool
) -> None:
    provider = Provider()
    consumer = consumer_at(provider)
    aws = start(consumer, **SETTINGS)
    handle = initialized(consumer, aws.runtime.settings)
    body = json.dumps(note())

    def serve() -> Facts:
        with calls(aws.runtime.dynamodb) as made:
            answer = handle({"Records": [record(body, "1")]}, FakeContext())
        [done] = aws.items("dedup")
        intent = made[0][1]["TransactItems"][0]["Put"]["Item"]
        return {
            "failures": answer["batchItemFailures"],
            "commit": done["commit"],
            "owner": intent["owner"]["S"],
            "jitter": full_jitter(3, base=1, cap=10),
            "trace": RandomIdGenerator().generate_trace_id(),
        }

    state = random.getstate()
    first, second = (restored(state, serve, with_hooks=with_hooks) for _ in range(2))
    assert first.pop("failures") == second.pop("failures") == []
    assert all(first.values())
    same = {name for name in first if first[name] == second[name]}
    assert same == (set() if with_hooks else {"jitter", "trace"})


def test_clients_are_created_before_the_snapshot(
    initialized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    aws = start()
    made: list[str] = []
    make = boto3.client

    def client(service: str, *given: Any, **named: Any) -> Any:
        made.append(service)
        return make(service, *given, **named)

    monkeypatch.setattr(boto3, "client", client)
    initialized(consumer_of(), replace(aws.runtime.settings, claim_bucket="claims"))
    assert sorted(made) == ["dynamodb", "s3", "sqs"]
