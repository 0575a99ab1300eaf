"""Dropped calls: some calls of functions to AWS are cut off, at the boundary of the SDK.

The embedded AWS runs this file in each process of a function whose variable `ONCE_PRELOAD` names
it, before the handler is loaded; `dropping` sets that variable.
"""

import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum, auto
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

if TYPE_CHECKING:
    from emulator.embedded_aws import EmbeddedAws

_DROPS, _LOG = "ONCE_DROPS", "ONCE_CALLS"
_STUBBORN = 0.5
"""The share of the cut-off calls whose retry by the SDK is cut off as well."""
_LATE_SECONDS = 1.0
_ACTION = re.compile(rb"(?:^|&)Action=(\w+)")


class Drop(StrEnum):
    """A way to cut off a call. The caller always sees a closed connection.

    Attributes:
        REFUSED: the call does not reach AWS.
        ANSWER_LOST: the call is executed, and its answer is lost.
        LATE: the call is executed some time after the connection to the caller is closed.
    """

    REFUSED = auto()
    ANSWER_LOST = auto()
    LATE = auto()


@dataclass(frozen=True)
class Drops:
    """The rates of cut-off calls.

    Attributes:
        seed: of the choice, together with the call's id.
        shares: the share of the calls that are cut off in each way, from 0 to 1.
    """

    seed: int
    shares: Mapping[Drop, float]

    def drawn(self, call: str, *, is_retry: bool) -> Drop | None:
        """Return how an attempt of a call, given by its id, is cut off; None if it is not."""
        random = Random(f"{self.seed}/{call}")
        left, is_stubborn = random.random(), random.random() < _STUBBORN
        if is_retry and not is_stubborn:
            return None
        for drop, share in self.shares.items():
            left -= share
            if left < 0:
                return Drop(drop)
        return None


def preload(drops: Drops, log: Path) -> None:
    """Cut off calls of this process from now on, and write each attempt to a file."""
    send = URLLib3Session.send

    def cut_off(session: URLLib3Session, request: Any) -> Any:
        call, attempt = (_text(request, f"amz-sdk-{each}") for each in ("invocation-id", "request"))
        drop = drops.drawn(call, is_retry=not attempt.startswith("attempt=1"))

        def execute(delay: float = 0.0) -> Any:
            time.sleep(delay)
            answer = None if drop is Drop.REFUSED else send(session, request)
            with log.open("a") as file:
                file.write(f"{drop or ''} {_operation(request)}\n")
            return answer

        if drop is Drop.LATE:
            threading.Thread(target=execute, args=[_LATE_SECONDS], daemon=True).start()
        else:
            answer = execute()
        if drop is not None:
            raise ConnectionClosedError(endpoint_url=request.url)
        return answer

    URLLib3Session.send = cut_off  # type: ignore[assignment]


def _text(request: Any, header: str) -> str:
    value = request.headers.get(header, "")
    return value.decode() if isinstance(value, bytes) else str(value)


def _operation(request: Any) -> str:
    """Return the operation, in the form of the service's protocol."""
    if target := _text(request, "X-Amz-Target"):
        return target.rpartition(".")[2]
    body = request.body if isinstance(request.body, bytes) else b""
    action = _ACTION.search(body)
    return action[1].decode() if action else f"{request.method} {request.url}"


class Calls:
    """The functions' attempts to call AWS until now.

    Attributes:
        passed: number of answered attempts by operation.
        dropped: number of attempts that were cut off, by the way and the operation.
    """

    def __init__(self, log: Path) -> None:
        log.touch()
        self.passed: Counter[str] = Counter()
        self.dropped: Counter[tuple[Drop, str]] = Counter()
        self._log, self._read, self._reading = log, 0, threading.Lock()

    def total(self) -> int:
        """Return the number of attempts, with those since the last call."""
        with self._reading, self._log.open("rb") as file:
            file.seek(self._read)
            content = file.read()
            whole = content[: content.rfind(b"\n") + 1]  # a line may be half written
            self._read += len(whole)
            for line in whole.decode().splitlines():
                drop, _, operation = line.partition(" ")
                if drop:
                    self.dropped[Drop(drop), operation] += 1
                else:
                    self.passed[operation] += 1
            return self.passed.total() + self.dropped.total()


@contextmanager
def dropping(aws: "EmbeddedAws", functions: Sequence[str], drops: Drops) -> Iterator[Calls]:
    """Cut off calls of functions; their processes are replaced at the beginning and at the end."""
    # The processes of functions have the library, but not these.
    from emulator.function_versions import reconfigured
    from once.names import LIVE_ALIAS

    log, client = aws.state_dir / "calls", aws.client("lambda")
    there = {"ONCE_PRELOAD": __file__, _DROPS: json.dumps(asdict(drops)), _LOG: str(log)}
    changes: dict[str, Any] = {}
    for name in functions:
        found = client.get_function_configuration(FunctionName=name, Qualifier=LIVE_ALIAS)
        changes[name] = {
            "Environment": {"Variables": {**found["Environment"]["Variables"], **there}}
        }
    calls = Calls(log)
    with reconfigured(aws, LIVE_ALIAS, changes):
        yield calls
    calls.total()


if __name__ == "preloaded":
    preload(Drops(**json.loads(os.environ[_DROPS])), Path(os.environ[_LOG]))
