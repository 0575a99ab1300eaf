"""Listener: forwards each new capture to a port of this machine, once and in order."""

import time
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError

from once.names import CLOCK_MARGIN_SECONDS
from once.ops.errors import OpsError
from once.ops.terminal import console, error_console, format_time, print_json
from once.ops.webhooks import capture_text, replay
from once.ops.webhooks._http import Destination, NotSent, Unanswered, Unsendable, send_request
from once.ops.webhooks.captures import CaptureFilter, Captures
from once.webhooks.capture import Capture

OVERLAP = timedelta(minutes=2)
"""Time that is looked at again. A capture has the time at which its request was received; it
commits some seconds later, in the time of a clock that may be slow, and then reaches the index."""

_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 5.0
"""Time between two looks at the index: the shortest after a webhook, the longest without any."""


class Listener:
    """Forwards captures, and prints a line for each.

    Args:
        captures: the captures of the deployment.
        conditions: the captures that are forwarded; `until` does not count.
        destination: the port of this machine.
        from_now: whether captures that exist at the first look are left out.
        as_json: whether the lines are JSON.
    """

    def __init__(
        self,
        captures: Captures,
        conditions: CaptureFilter,
        destination: Destination,
        *,
        from_now: bool,
        as_json: bool,
    ) -> None:
        self._captures = captures
        self._conditions = conditions
        self._destination = destination
        self._skip = from_now
        self._as_json = as_json
        self._position = conditions.since
        self._seen: dict[tuple[str, int], datetime] = {}
        self.number = 0
        self.last: str | None = None

    def run(self) -> None:
        """Forward captures until Ctrl-C.

        Raises:
            OpsError: there are too many captures to look at.
            botocore.exceptions.ClientError: DynamoDB refuses the query.
        """
        pause = _SHORTEST_SECONDS
        while True:
            try:
                found = self._new(datetime.now(UTC))
            except BotoCoreError as error:  # the network of a laptop comes and goes
                error_console.print(f"no look at the captures: {error}", soft_wrap=True)
                found = []
            for capture in found:
                self._forward(capture)
            pause = _SHORTEST_SECONDS if found else min(2 * pause, _LONGEST_SECONDS)
            time.sleep(pause)

    def _new(self, now: datetime) -> list[Capture]:
        """Return the captures that are new in the index since the last look, oldest first."""
        begin = max(self._conditions.since, min(self._position, now) - OVERLAP)
        self._captures.read = 0
        ahead = now + timedelta(seconds=CLOCK_MARGIN_SECONDS)
        period = CaptureFilter(since=begin, until=ahead, endpoint=self._conditions.endpoint)
        found = {(one.pk, one.received_at): one for one in self._captures.matching(period)}
        new = [one for name, one in reversed(found.items()) if name not in self._seen]
        self._seen = {name: at for name, at in self._seen.items() if at >= begin}
        self._seen |= {name: capture_text.received_at(one) for name, one in found.items()}
        self._position = max([self._position, *map(capture_text.received_at, new)])
        skipped, self._skip = self._skip, False
        return [] if skipped else [*filter(self._conditions.matches, new)]

    def _forward(self, listed: Capture) -> None:
        try:
            capture = self._captures.get(listed.pk)
            answer = self._sent(capture, self._captures.body(capture))
        except OpsError as error:
            answer = f"not forwarded: {error}"
        else:
            self.number += 1
        self.last = capture_text.received_at(listed).isoformat(timespec="milliseconds")
        if self._as_json:
            print_json({**capture_text.capture_json(listed), "answer": answer})
        else:
            at = format_time(capture_text.received_at(listed))
            console.print(f"{at}  {capture_text.capture_line(listed)}  {answer}", soft_wrap=True)

    def _sent(self, capture: Capture, body: bytes) -> str:
        """Return the answer; waits while nothing takes connections."""
        pause = _SHORTEST_SECONDS
        while True:
            try:
                headers = {**capture.headers, replay.MARK: replay.mark()}
                return str(send_request(self._destination, capture.method, headers, body))
            except (Unanswered, Unsendable) as error:  # perhaps processed: it is not sent twice
                return str(error)
            except NotSent as error:
                if pause == _SHORTEST_SECONDS:
                    error_console.print(f"waiting: {error}", soft_wrap=True)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SECONDS)
