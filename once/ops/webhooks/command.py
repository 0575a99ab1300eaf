"""The commands `webhooks list` and `webhooks show`, and the group of all `webhooks` commands."""

import os
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

from typer import BadParameter, Option

from once.ops.terminal.console import JsonOption, ServiceOption, command_group, console, print_json
from once.ops.terminal.formatting import format_time
from once.ops.webhooks._capture_json import capture_json, whole_capture_json
from once.ops.webhooks._listen import listen
from once.ops.webhooks._options import (
    EndpointOption,
    IdArgument,
    SinceOption,
    StandingOption,
    TypeOption,
    UntilOption,
    find_webhooks,
)
from once.ops.webhooks._replay import replay
from once.ops.webhooks._send import send
from once.ops.webhooks.capture_filter import LIST_PERIOD, SEARCH_PERIOD, CaptureFilter
from once.ops.webhooks.capture_search import CaptureSearch
from once.ops.webhooks.capture_text import body_text, capture_lines, captures_table, event_name
from once.webhooks.capture import Capture

_FOR_THE_OWNER = 0o600

app = command_group(help="Webhooks: list, show, replay, send, listen.")


@app.command("list")
def list_command(
    endpoint: EndpointOption = None,
    webhook_type: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    standing: StandingOption = None,
    limit: Annotated[int, Option(min=1, help="Most webhooks to show.")] = 50,
    service: ServiceOption = "once",
    as_json: JsonOption = False,
) -> None:
    """Show the webhooks that were captured, the newest first; without --since, those of a day."""
    conditions = CaptureFilter.of(
        since,
        until,
        LIST_PERIOD,
        endpoint=endpoint,
        webhook_type=webhook_type,
        standing=standing,
    )
    search = CaptureSearch.of(*find_webhooks(service))
    found = search.matching(conditions)
    captures = [*islice(found, limit)]
    more = next(found, None) is not None
    if as_json:
        print_json({"webhooks": list(map(capture_json, captures)), "more": more})
    else:
        _show_list(captures, conditions, more=more)


def _show_list(captures: list[Capture], conditions: CaptureFilter, *, more: bool) -> None:
    if captures:
        console.print(captures_table(captures))
    number = f"the newest {len(captures)}" if more else f"{len(captures)}"
    remedy = "; --limit shows more" if more else "; --since looks further back"
    console.print(f"{number} webhooks since {format_time(conditions.since)}{remedy}")


@app.command()
def show(
    name: IdArgument,
    endpoint: EndpointOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    body_to: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the bytes of the body to this new file."),
    ] = None,
    service: ServiceOption = "once",
    as_json: JsonOption = False,
) -> None:
    """Show one captured webhook: its facts, headers and body, and the event it was handed on as."""
    conditions = CaptureFilter.of(since, until, SEARCH_PERIOD, endpoint=endpoint)
    search = CaptureSearch.of(*find_webhooks(service))
    [found] = search.by_ids([name], conditions)
    capture = search.store.get(found.pk)
    body = search.store.body(capture)
    if body_to is not None:
        _write(body_to, body)
    if as_json:
        print_json(whole_capture_json(capture, body))
    else:
        _show_capture(capture, body, body_to)


def _show_capture(capture: Capture, body: bytes, file: Path | None) -> None:
    for line in capture_lines(capture, datetime.now(UTC)):
        console.print(line, soft_wrap=True)
    console.print()
    written = f"its body is in {file}" if file else body_text(body)
    console.print(written, soft_wrap=True)
    if capture.event_type:
        source, event_id = event_name(capture)
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


app.command()(replay)
app.command()(send)
app.command()(listen)
