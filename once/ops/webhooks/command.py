"""The commands `webhooks list`, `show`, `replay` and `listen`, and the group with `send`."""

import os
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option

from once.ops.aws.deployment import Deployment
from once.ops.errors import StoppedError
from once.ops.operator_log import WhyOption
from once.ops.terminal import (
    TIME_FORMATS,
    JsonOption,
    ServiceOption,
    command_group,
    console,
    error_console,
    format_time,
    print_json,
    progress,
)
from once.ops.webhooks import capture_text
from once.ops.webhooks._http import Destination, is_loopback
from once.ops.webhooks._listen import OVERLAP, Listener
from once.ops.webhooks._send import send
from once.ops.webhooks.captures import LIST_PERIOD, SEARCH_PERIOD, CaptureFilter, Captures
from once.ops.webhooks.replay import DONE, MOST_LINES, ReplayRequest, ReplayRun
from once.webhooks.capture import Standing

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
_IdsArgument = Annotated[list[str] | None, Argument(metavar="ID", help="As for `show`.")]
_EndpointOption = Annotated[
    str | None, Option("--endpoint", help="Only webhooks of this endpoint.")
]
_TypeOption = Annotated[
    str | None,
    Option("--type", help="Only webhooks of this type: the provider's, or that of the event."),
]
_StandingOption = Annotated[
    Standing | None, Option("--standing", help="Only webhooks with this standing.")
]
_SinceOption = Annotated[
    str | None,
    Option(metavar="WHEN", help=f"Only webhooks from this time or later: {TIME_FORMATS}."),
]
_UntilOption = Annotated[
    str | None, Option(metavar="WHEN", help="Only webhooks from before this time.")
]

app = command_group(help="Webhooks: list, show, replay, send, listen.")


@app.command("list")
def list_command(
    endpoint: _EndpointOption = None,
    webhook_type: _TypeOption = None,
    since: _SinceOption = None,
    until: _UntilOption = None,
    standing: _StandingOption = None,
    limit: Annotated[int, Option(min=1, help="Most webhooks to show.")] = 50,
    service: ServiceOption = "once",
    as_json: JsonOption = False,
) -> None:
    """Show the webhooks that were captured, the newest first; without --since, those of a day."""
    conditions = CaptureFilter.of(
        since, until, LIST_PERIOD, endpoint=endpoint, webhook_type=webhook_type, standing=standing
    )
    found = Captures.of(Deployment.find(service)).matching(conditions)
    captures = [*islice(found, limit)]
    more = next(found, None) is not None
    if as_json:
        print_json({"webhooks": list(map(capture_text.capture_json, captures)), "more": more})
        return
    if captures:
        console.print(capture_text.captures_table(captures))
    number = f"the newest {len(captures)}" if more else f"{len(captures)}"
    remedy = "; --limit shows more" if more else "; --since looks further back"
    console.print(f"{number} webhooks since {format_time(conditions.since)}{remedy}")


@app.command()
def show(
    name: _IdArgument,
    endpoint: _EndpointOption = None,
    since: _SinceOption = None,
    until: _UntilOption = None,
    body_to: Annotated[
        Path | None, Option(metavar="FILE", help="Write the bytes of the body to this new file.")
    ] = None,
    service: ServiceOption = "once",
    as_json: JsonOption = False,
) -> None:
    """Show one captured webhook: its facts, headers and body, and the event it was handed on as."""
    conditions = CaptureFilter.of(since, until, SEARCH_PERIOD, endpoint=endpoint)
    captures = Captures.of(Deployment.find(service))
    [found] = captures.by_ids([name], conditions)
    capture = captures.get(found.pk)
    body = captures.body(capture)
    if body_to is not None:
        _write(body_to, body)
    if as_json:
        print_json(capture_text.whole_capture_json(capture, body))
        return
    for line in capture_text.capture_lines(capture, datetime.now(UTC)):
        console.print(line, soft_wrap=True)
    console.print()
    console.print(
        f"its body is in {body_to}" if body_to else capture_text.body_text(body), soft_wrap=True
    )
    if capture.event_type:
        source, event_id = capture_text.event_name(capture)
        console.print(f"\nonce trace {event_id} --source {source}", soft_wrap=True)


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
    names: _IdsArgument = None,
    endpoint: _EndpointOption = None,
    webhook_type: _TypeOption = None,
    since: _SinceOption = None,
    until: _UntilOption = None,
    standing: _StandingOption = None,
    to_queue: Annotated[
        str | None,
        Option(
            "--to-queue", metavar="CONSUMER", help="Send their events to this consumer's queue."
        ),
    ] = None,
    to_url: Annotated[
        str | None,
        Option("--to-url", metavar="URL", help="Send the requests themselves to this URL."),
    ] = None,
    allow_private: Annotated[
        bool, Option("--allow-private", help="With --to-url: allow addresses that are not public.")
    ] = False,
    unsafe: Annotated[
        bool,
        Option("--unsafe", help="With --to-queue: send also what a consumer may have forgotten."),
    ] = False,
    yes: Annotated[bool, Option("--yes", help="Send; without it, nothing is sent.")] = False,
    rate: Annotated[float, Option(min=0.1, help="Most webhooks a second.")] = 10,
    limit: Annotated[int, Option(min=1, help="Most webhooks; more are refused.")] = 1000,
    service: ServiceOption = "once",
    why: WhyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send captured webhooks again, the oldest first. Without --yes it only says what it would do.

    A queue receives the event that the webhook was handed on as, with the same id:
    a consumer that has processed it recognises a duplicate. The event of a webhook
    that was captured only is made in the same way, once its endpoint hands its type
    on. A URL receives the bytes of the body and the headers that were captured,
    and a header that marks the replay. No redirect is followed.
    """
    if not names and since is None:
        raise BadParameter("name webhooks by ID, or give --since")
    conditions = CaptureFilter.of(
        since, until, SEARCH_PERIOD, endpoint=endpoint, webhook_type=webhook_type, standing=standing
    )
    asked = ReplayRequest(
        names=names or [],
        conditions=conditions,
        queue=to_queue,
        url=to_url,
        allow_private=allow_private,
        unsafe=unsafe,
        rate=rate,
        limit=limit,
    )
    asked.check()
    deployment = Deployment.find(service)
    captures = Captures.of(deployment)
    target = asked.target(deployment)
    run = ReplayRun(asked, captures, target, asked.chosen(captures), dry_run=not yes)
    with run.logged(deployment, why) if yes else nullcontext():
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
    if yes:
        run.raise_if_left()


def _show(run: ReplayRun, *, stopped: bool, as_json: bool) -> None:
    sent = run.number(*DONE)
    if as_json:
        results = [one.as_json() for one in run.results]
        print_json({"dry_run": run.dry_run, "stopped": stopped, "sent": sent, "webhooks": results})
        return
    for one in run.results[:MOST_LINES]:
        console.print(str(one), soft_wrap=True)
    if len(run.results) > MOST_LINES:
        console.print(f"… and {len(run.results) - MOST_LINES} more: --json lists all")
    if run.dry_run:
        console.print(f"{sent} webhooks would be sent; nothing was sent: --yes sends them")
    else:
        console.print(f"{sent} of {len(run.results)} webhooks were sent")


app.command()(send)


@app.command()
def listen(
    to: Annotated[str, Option("--to", metavar="URL", help="Where to: http://localhost:3000/path.")],
    endpoint: _EndpointOption = None,
    webhook_type: _TypeOption = None,
    since: _SinceOption = None,
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
    listener = Listener(
        Captures.of(Deployment.find(service)),
        conditions,
        destination,
        from_now=since is None,
        as_json=as_json,
    )
    error_console.print(f"forwarding to {to}; Ctrl-C ends it", soft_wrap=True)
    try:
        listener.run()
    except KeyboardInterrupt:
        more = "" if listener.last is None else f"; the last was received {listener.last}"
        error_console.print(f"ended: {listener.number} webhooks forwarded{more}", soft_wrap=True)
