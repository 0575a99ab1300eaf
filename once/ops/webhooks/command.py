"""The commands `webhooks list`, `show`, `replay` and `listen`, and the group with `send`."""

import os
import shlex
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated

from botocore.exceptions import BotoCoreError
from typer import Argument, BadParameter, Option

from once.names import CLOCK_MARGIN_SECONDS
from once.ops import operator_log, terminal
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError, StoppedError
from once.ops.progress import progress, saying
from once.ops.terminal import console, error_console, format_time, print_json
from once.ops.webhooks import capture_text
from once.ops.webhooks._http import Destination, NotSent, Unanswered, Unsendable, is_loopback
from once.ops.webhooks._send import send
from once.ops.webhooks.captures import (
    LIST_PERIOD,
    SEARCH_PERIOD,
    CaptureFilter,
    CaptureOptions,
    Captures,
    EndpointOption,
    SinceOption,
    TypeOption,
    UntilOption,
)
from once.ops.webhooks.replay import DONE, MOST_LINES, ReplayRequest, ReplayRun, resend
from once.webhooks.capture import Capture

OVERLAP = timedelta(minutes=2)
"""Time that is looked at again. A capture has the time at which its request was received; it
commits some seconds later, in the time of a clock that may be slow, and then reaches the index."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 5.0
"""Time between two looks at the index: the shortest after a webhook, the longest without any."""


@dataclass(slots=True, kw_only=True)
class Listener:
    """Forwards captures to a port of this machine, and prints a line for each.

    Attributes:
        conditions: the captures that are forwarded; `until` does not count.
        skip: whether captures that exist at the first look are left out.
    """

    captures: Captures
    conditions: CaptureFilter
    destination: Destination
    skip: bool
    as_json: bool
    number: int = 0
    last: str | None = None
    _position: datetime = _EPOCH
    _seen: dict[tuple[str, int], datetime] = field(default_factory=dict)

    def run(self) -> None:
        """Forward captures until Ctrl-C."""
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
        begin = max(self.conditions.since, min(self._position, now) - OVERLAP)
        self.captures.read = 0
        ahead = now + timedelta(seconds=CLOCK_MARGIN_SECONDS)
        period = CaptureFilter(since=begin, until=ahead, endpoint=self.conditions.endpoint)
        found = {(one.pk, one.received_at): one for one in self.captures.matching(period)}
        new = [one for name, one in reversed(found.items()) if name not in self._seen]
        self._seen = {name: at for name, at in self._seen.items() if at >= begin}
        self._seen |= {name: capture_text.received_at(one) for name, one in found.items()}
        self._position = max([self._position, *map(capture_text.received_at, new)])
        skipped, self.skip = self.skip, False
        return [] if skipped else [*filter(self.conditions.matches, new)]

    def _forward(self, listed: Capture) -> None:
        try:
            capture = self.captures.get(listed.pk)
            answer = self._sent(capture, self.captures.body(capture))
        except OpsError as error:
            answer = f"not forwarded: {error}"
        else:
            self.number += 1
        self.last = capture_text.received_at(listed).isoformat(timespec="milliseconds")
        if self.as_json:
            print_json({**capture_text.capture_json(listed), "answer": answer})
        else:
            at = format_time(capture_text.received_at(listed))
            console.print(f"{at}  {capture_text.capture_line(listed)}  {answer}", soft_wrap=True)

    def _sent(self, capture: Capture, body: bytes) -> str:
        """Return the answer; waits while nothing takes connections."""
        pause = _SHORTEST_SECONDS
        while True:
            try:
                return str(resend(self.destination, capture, body))
            except (Unanswered, Unsendable) as error:  # perhaps processed: it is not sent twice
                return str(error)
            except NotSent as error:
                if pause == _SHORTEST_SECONDS:
                    error_console.print(f"waiting: {error}", soft_wrap=True)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SECONDS)


_FOR_THE_OWNER = 0o600
_NOT_HERE = (
    "which is not this machine: --to takes addresses such as http://localhost:3000/path, and "
    "`once webhooks replay ID --to-url URL` sends to others"
)

_IdArgument = Annotated[
    str,
    Argument(
        metavar="ID",
        help=(
            "The provider's id, a dedup key, or the beginning of a key, of its hash or of a body's "
            "SHA-256."
        ),
    ),
]
app = terminal.command_group()


@app.command("list")
def list_command(
    options: CaptureOptions,
    limit: Annotated[int, Option(min=1, help="Most webhooks to show.")] = 50,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the webhooks that were captured, the newest first; without --since, those of a day."""
    conditions = options.conditions(LIST_PERIOD)
    found = Captures.of(Deployment.find(service)).matching(conditions)
    with saying("reading the webhooks"):
        captures = [*islice(found, limit)]
    more = next(found, None) is not None
    if as_json:
        terminal.print_json(
            {"webhooks": list(map(capture_text.capture_json, captures)), "more": more}
        )
        return
    if captures:
        terminal.console.print(capture_text.captures_table(captures))
    number = ("the newest " if more else "") + terminal.counted(len(captures), "webhook")
    remedy = "; --limit shows more" if more else "; --since looks further back"
    terminal.console.print(f"{number} since {terminal.format_time(conditions.since)}{remedy}")


@app.command()
def show(
    name: _IdArgument,
    endpoint: EndpointOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    body_to: Annotated[
        Path | None, Option(metavar="FILE", help="Write the bytes of the body to this new file.")
    ] = None,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show one captured webhook: its facts, headers and body, and the event it was handed on as."""
    options = CaptureOptions(endpoint=endpoint, since=since, until=until)
    captures = Captures.of(Deployment.find(service))
    [found] = captures.by_ids([name], options.conditions(SEARCH_PERIOD))
    capture = captures.get(found.pk)
    body = captures.body(capture)
    if body_to is not None:
        _write(body_to, body)
    if as_json:
        terminal.print_json(capture_text.whole_capture_json(capture, body))
        return
    for line in terminal.fact_lines(capture_text.capture_rows(capture, datetime.now(UTC))):
        terminal.console.print(line, soft_wrap=True)
    terminal.console.print()
    terminal.console.print(
        f"its body is in {body_to}" if body_to else capture_text.body_text(body), soft_wrap=True
    )
    if capture.event_type:
        source, event_id = capture_text.event_name(capture)
        named = shlex.join([event_id, "--source", source])
        terminal.console.print(f"\nnext: `once trace {named}`", soft_wrap=True)


def _write(file: Path, body: bytes) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_THE_OWNER)
        with os.fdopen(handle, "wb") as opened:
            opened.write(body)
    except OSError as error:
        raise BadParameter(
            f"{file} cannot be written ({error.strerror}): name a new file", param_hint="--body-to"
        ) from None


@app.command()
def replay(
    asked: ReplayRequest, how: operator_log.ChangeOptions, service: terminal.ServiceOption = "once"
) -> None:
    """Send captured webhooks again, the oldest first.

    A queue receives the event that the webhook was handed on as, with the same id:
    a consumer that has processed it recognises a duplicate. The event of a webhook
    that was captured only is made in the same way, once its endpoint hands its type
    on. A URL receives the bytes of the body and the headers that were captured,
    and a header that marks the replay. No redirect is followed.
    """
    deployment = Deployment.find(service)
    plan = asked.plan(deployment, Captures.of(deployment))
    if how.dry_run or not how.yes:
        with saying("reading the webhooks"):
            plan.run()
    number = plan.number(*DONE)
    question = f"send {terminal.counted(number, 'webhook')}?" if number or how.yes else None
    if how.agreed(question, *_lines(plan)):
        with plan.sending(deployment, how.why) as run:
            stopped = True
            try:
                with progress(as_json=how.as_json) as bar:
                    task = bar.add_task("webhooks", total=len(run.chosen))
                    run.run(lambda: bar.advance(task))
                stopped = False
            except KeyboardInterrupt:
                raise StoppedError(run.stopped_text) from None
            finally:
                _show(run, stopped=stopped, as_json=how.as_json)
        return
    if how.as_json:
        _show(plan, stopped=False, as_json=True)
    if not how.dry_run:
        plan.raise_if_left()


def _lines(run: ReplayRun) -> list[str]:
    return terminal.first_lines([*map(str, run.results)], MOST_LINES, ": --json lists all")


def _show(run: ReplayRun, *, stopped: bool, as_json: bool) -> None:
    sent = run.number(*DONE)
    if as_json:
        results = [one.as_json() for one in run.results]
        terminal.print_json(
            {"dry_run": run.dry_run, "stopped": stopped, "sent": sent, "webhooks": results}
        )
        return
    for line in _lines(run):
        terminal.console.print(line, soft_wrap=True)
    number = terminal.counted(len(run.results), "webhook")
    terminal.console.print(f"sent {sent} of {number}")


app.command()(send)


@app.command()
def listen(
    to: Annotated[str, Option("--to", metavar="URL", help="Where to: http://localhost:3000/path.")],
    endpoint: EndpointOption = None,
    webhook_type: TypeOption = None,
    since: SinceOption = None,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Forward webhooks to a port of this machine while they are captured, until Ctrl-C.

    Each is forwarded once, with the bytes of its body and the headers that were
    captured. While nothing takes connections there, the command waits. Without
    --since, webhooks from before the start are left out. Nothing changes in AWS.
    """
    destination = Destination.of(to, "--to", is_loopback, _NOT_HERE)
    options = CaptureOptions(endpoint=endpoint, webhook_type=webhook_type, since=since)
    listener = Listener(
        captures=Captures.of(Deployment.find(service)),
        conditions=options.conditions(OVERLAP),
        destination=destination,
        skip=since is None,
        as_json=as_json,
    )
    terminal.error_console.print(f"forwarding to {to}; Ctrl-C ends it", soft_wrap=True)
    try:
        listener.run()
    except KeyboardInterrupt:
        more = "" if listener.last is None else f"; the last was received {listener.last}"
        terminal.error_console.print(
            f"ended: {terminal.counted(listener.number, 'webhook')} forwarded{more}", soft_wrap=True
        )
