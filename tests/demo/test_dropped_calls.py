"""Dropped calls: a call is cut off before it is executed, after it, or executed later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from demo import dropped_calls
from demo.dropped_calls import Calls, Drop, Drops, preload
from demo.quiescence import wait_until

Call = Callable[[], object]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that AWS has executed."""
    done: list[str] = []

    def send(_: URLLib3Session, request: Any) -> Any:
        done.append(request.headers["X-Amz-Target"].decode())
        raw: Any = type("Raw", (), {"stream": lambda *_, **__: iter([b"{}"])})()
        return AWSResponse(request.url, 200, HTTPHeaders(), raw)

    monkeypatch.setattr(URLLib3Session, "send", send)
    monkeypatch.setattr(dropped_calls, "_LATE_SECONDS", 0.0)
    return done


@contextmanager
def calling(folder: Path, *drops: Drop, attempts: int = 1) -> Iterator[tuple[Call, Calls]]:
    """Let a function make a call, which is cut off in the given way."""
    calls = Calls(folder / "calls")
    preload(Drops(1, dict.fromkeys(drops, 1.0)), folder / "calls")
    retries: Any = {"mode": "standard", "total_max_attempts": attempts}
    client = boto3.client(
        "dynamodb",
        "us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries=retries),
    )
    yield lambda: client.delete_item(TableName="orders", Key={"id": {"S": "1"}}), calls


@pytest.mark.parametrize("drop", Drop)
def test_a_call_is_cut_off(drop: Drop, executed: list[str], tmp_path: Path) -> None:
    with calling(tmp_path, drop) as (call, calls):
        with pytest.raises(ConnectionClosedError):
            call()
        wait_until("it is counted", lambda: calls.total() == 1, timeout=20)
    assert calls.dropped == {(drop, "DeleteItem"): 1}
    assert len(executed) == (drop is not Drop.REFUSED)


@pytest.mark.parametrize(("stubborn", "dropped"), [(0.0, 1), (1.0, 2)])
def test_a_retry_of_the_sdk_is_cut_off_as_well_or_passes(
    stubborn: float,
    dropped: int,
    executed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dropped_calls, "_STUBBORN", stubborn)
    with calling(tmp_path, Drop.ANSWER_LOST, attempts=2) as (call, calls):
        if stubborn:
            with pytest.raises(ConnectionClosedError):
                call()
        else:
            call()
    assert calls.total() == len(executed) == 2
    assert calls.dropped.total() == dropped
