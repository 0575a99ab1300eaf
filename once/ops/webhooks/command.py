"""The commands `webhooks list`, `show`, `replay` and `listen`, and the group with `send`."""

import os
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option

from once.ops import operator_log, terminal
from once.ops.aws.deployment import Deployment
from once.ops.errors import StoppedError
from once.ops.progress import progress
from once.ops.webhooks import capture_text
from once.ops.webhooks._http import Destination, is_loopback
from once.ops.webhooks._listen import OVERLAP, Listener
from once.ops.webhooks._send import send
from once.ops.webhooks.captures import (
    LIST_PERIOD,
    SEARCH_PERIOD,
    CaptureOptions,
    Captures,
    EndpointOption,
    SinceOption,
    TypeOption,
    UntilOption,
)
from once.ops.webhooks.replay import DONE, MOST_LINES, ReplayRequest, ReplayRun

_FOR_THE_OWNER = 0o600
_NOT_HERE = (
    "which is not this machine: --to takes addresses such as http://localhost:3000/path, and "
    "`once webhooks replay --to-url` sends to others"
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
@terminal.with_options
def list_command(
    options: CaptureOptions,
    limit: Annotated[int, Option(min=1, help="Most webhooks to show.")] = 50,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the webhooks that were captured, the newest first; without --since, those of a day."""
    conditions = options.conditions(LIST_PERIOD)
    found = Captures.of(Deployment.find(service)).matching(conditions)
    captures = [*islice(found, limit)]
    more = next(found, None) is not None
    if as_json:
        terminal.print_json(
            {"webhooks": list(map(capture_text.capture_json, captures)), "more": more}
        )
        return
    if captures:
        terminal.console.print(capture_text.captures_table(captures))
    number = f"the newest {len(captures)}" if more else f"{len(captures)}"
    remedy = "; --limit shows more" if more else "; --since looks further back"
    terminal.console.print(
        f"{number} webhooks since {terminal.format_time(conditions.since)}{remedy}"
    )


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
    for line in capture_text.capture_lines(capture, datetime.now(UTC)):
        terminal.console.print(line, soft_wrap=True)
    terminal.console.print()
    terminal.console.print(
        f"its body is in {body_to}" if body_to else capture_text.body_text(body), soft_wrap=True
    )
    if capture.event_type:
        source, event_id = capture_text.event_name(capture)
        terminal.console.print(f"\nonce trace {event_id} --source {source}", soft_wrap=True)


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
@terminal.with_options
def replay(
    asked: ReplayRequest,
    service: terminal.ServiceOption = "once",
    why: operator_log.WhyOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Send captured webhooks again, the oldest first. Without --yes it only says what it would do.

    A queue receives the event that the webhook was handed on as, with the same id:
    a consumer that has processed it recognises a duplicate. The event of a webhook
    that was captured only is made in the same way, once its endpoint hands its type
    on. A URL receives the bytes of the body and the headers that were captured,
    and a header that marks the replay. No redirect is followed.
    """
    if not asked.names and asked.since is None:
        raise BadParameter("name webhooks by ID, or give --since")
    asked.check()
    deployment = Deployment.find(service)
    captures = Captures.of(deployment)
    target = asked.target(deployment)
    run = ReplayRun(asked, captures, target, asked.chosen(captures), dry_run=not asked.yes)
    with run.logged(deployment, why) if asked.yes else nullcontext():
        stopped = True
        try:
            with progress(as_json=as_json) as bar:
                task = bar.add_task("webhooks", total=len(run.chosen))
                run.run(lambda: bar.advance(task))
            stopped = False
        except KeyboardInterrupt:
            raise StoppedError(run.stopped_text) from None
        finally:
            _show(run, stopped=stopped, as_json=as_json)
    if asked.yes:
        run.raise_if_left()


def _show(run: ReplayRun, *, stopped: bool, as_json: bool) -> None:
    sent = run.number(*DONE)
    if as_json:
        results = [one.as_json() for one in run.results]
        terminal.print_json(
            {"dry_run": run.dry_run, "stopped": stopped, "sent": sent, "webhooks": results}
        )
        return
    for one in run.results[:MOST_LINES]:
        terminal.console.print(str(one), soft_wrap=True)
    if len(run.results) > MOST_LINES:
        terminal.console.print(f"… and {len(run.results) - MOST_LINES} more: --json lists all")
    if run.dry_run:
        terminal.console.print(f"{sent} webhooks would be sent; nothing was sent: --yes sends them")
    else:
        terminal.console.print(f"{sent} of {len(run.results)} webhooks were sent")


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
        Captures.of(Deployment.find(service)),
        options.conditions(OVERLAP),
        destination,
        from_now=since is None,
        as_json=as_json,
    )
    terminal.error_console.print(f"forwarding to {to}; Ctrl-C ends it", soft_wrap=True)
    try:
        listener.run()
    except KeyboardInterrupt:
        more = "" if listener.last is None else f"; the last was received {listener.last}"
        terminal.error_console.print(
            f"ended: {listener.number} webhooks forwarded{more}", soft_wrap=True
        )
