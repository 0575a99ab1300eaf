"""The command `webhooks listen`: forwards new webhooks to a port of this machine."""

import time
from datetime import UTC, datetime
from typing import Annotated

from botocore.exceptions import BotoCoreError
from typer import Option

from once.ops.errors import OpsError
from once.ops.terminal.console import (
    JsonOption,
    ServiceOption,
    console,
    error_console,
    print_json,
)
from once.ops.terminal.formatting import format_time
from once.ops.webhooks._addresses import is_loopback
from once.ops.webhooks._capture_json import capture_json
from once.ops.webhooks._destination import Destination
from once.ops.webhooks._follower import OVERLAP, CaptureFollower
from once.ops.webhooks._http_post import NotSent, Unanswered, Unsendable, send_request
from once.ops.webhooks._options import (
    EndpointOption,
    SinceOption,
    TypeOption,
    find_webhooks,
)
from once.ops.webhooks._replay_targets import MARK, mark
from once.ops.webhooks.capture_filter import CaptureFilter
from once.ops.webhooks.capture_search import CaptureSearch
from once.ops.webhooks.capture_store import CaptureStore
from once.ops.webhooks.capture_text import capture_line, received_at
from once.webhooks.capture import Capture

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 5.0
"""Time between two looks at the index: the shortest after a webhook, the longest without any."""

_NOT_HERE = (
    "which is not this machine: --to takes addresses such as http://localhost:3000/path, and "
    "`once webhooks replay --to-url` sends to others"
)


def listen(
    to: Annotated[str, Option("--to", metavar="URL", help="Where to: http://localhost:3000/path.")],
    endpoint: EndpointOption = None,
    webhook_type: TypeOption = None,
    since: SinceOption = None,
    service: ServiceOption = "once",
    as_json: JsonOption = False,
) -> None:
    """Forward webhooks to a port of this machine while they are captured, until Ctrl-C.

    Each is forwarded once, with the bytes of its body and the headers that were
    captured. While nothing takes connections there, the command waits. Without
    --since, webhooks from before the start are left out. Nothing changes in AWS.
    """
    destination = Destination.of(to, "--to", is_loopback, _NOT_HERE)
    conditions = CaptureFilter.of(
        since, None, OVERLAP, endpoint=endpoint, webhook_type=webhook_type
    )
    deployment, webhooks = find_webhooks(service)
    search = CaptureSearch.of(deployment, webhooks)
    follower = CaptureFollower(search, conditions, from_now=since is None)
    forwarder = _Forwarder(search.store, destination, as_json=as_json)
    error_console.print(f"forwarding to {to}; Ctrl-C ends it", soft_wrap=True)
    try:
        _follow(follower, forwarder)
    except KeyboardInterrupt:
        more = "" if forwarder.last is None else f"; the last was received {forwarder.last}"
        error_console.print(f"ended: {forwarder.number} webhooks forwarded{more}", soft_wrap=True)


def _follow(follower: CaptureFollower, forwarder: "_Forwarder") -> None:
    pause = SHORTEST_SECONDS
    while True:
        try:
            found = follower.look(datetime.now(UTC))
        except BotoCoreError as error:  # the network of a laptop comes and goes
            error_console.print(f"no look at the captures: {error}", soft_wrap=True)
            found = []
        for capture in found:
            forwarder.forward(capture)
        pause = SHORTEST_SECONDS if found else min(2 * pause, LONGEST_SECONDS)
        time.sleep(pause)


class _Forwarder:
    """Forwards webhooks, and prints a line for each."""

    def __init__(self, store: CaptureStore, destination: Destination, *, as_json: bool) -> None:
        self._store = store
        self._destination = destination
        self._as_json = as_json
        self.number = 0
        self.last: str | None = None

    def forward(self, listed: Capture) -> None:
        try:
            capture = self._store.get(listed.pk)
            answer = self._sent(capture, self._store.body(capture))
        except OpsError as error:
            answer = f"not forwarded: {error}"
        else:
            self.number += 1
        self.last = received_at(listed).isoformat(timespec="milliseconds")
        self._show(listed, answer)

    def _sent(self, capture: Capture, body: bytes) -> str:
        pause = SHORTEST_SECONDS
        while True:
            try:
                headers = {**capture.headers, MARK: mark()}
                return str(send_request(self._destination, capture.method, headers, body))
            except (
                Unanswered,
                Unsendable,
            ) as error:  # it may have been processed: it is not sent twice
                return str(error)
            except NotSent as error:
                if pause == SHORTEST_SECONDS:
                    error_console.print(f"waiting: {error}", soft_wrap=True)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_SECONDS)

    def _show(self, capture: Capture, answer: str) -> None:
        if self._as_json:
            print_json({**capture_json(capture), "answer": answer})
        else:
            at = format_time(received_at(capture))
            console.print(f"{at}  {capture_line(capture)}  {answer}", soft_wrap=True)
