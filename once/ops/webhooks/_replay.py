"""The command `webhooks replay`: sends captured webhooks again, to a queue or to a URL."""

from collections.abc import Sequence
from typing import Annotated

from typer import BadParameter, Option

from once.ops.errors import OpsError, StoppedError
from once.ops.operator_log import WhyOption
from once.ops.terminal.console import JsonOption, ServiceOption, console, print_json, progress
from once.ops.webhooks._options import (
    EndpointOption,
    IdsArgument,
    SinceOption,
    StandingOption,
    TypeOption,
    UntilOption,
    find_webhooks,
)
from once.ops.webhooks.capture_filter import SEARCH_PERIOD, CaptureFilter
from once.ops.webhooks.capture_search import CaptureSearch
from once.ops.webhooks.replay_request import (
    MOST_LINES,
    ReplayRequest,
    left_text,
    logged_replay,
    stopped_text,
)
from once.ops.webhooks.replay_run import DONE, ReplayRun
from once.webhooks.capture import Capture

_ToQueueOption = Annotated[
    str | None,
    Option("--to-queue", metavar="CONSUMER", help="Send their events to this consumer's queue."),
]
_ToUrlOption = Annotated[
    str | None,
    Option("--to-url", metavar="URL", help="Send the requests themselves to this URL."),
]
_PrivateOption = Annotated[
    bool, Option("--allow-private", help="With --to-url: allow addresses that are not public.")
]


def replay(
    names: IdsArgument = None,
    endpoint: EndpointOption = None,
    webhook_type: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    standing: StandingOption = None,
    to_queue: _ToQueueOption = None,
    to_url: _ToUrlOption = None,
    allow_private: _PrivateOption = False,
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
    deployment, webhooks = find_webhooks(service)
    search = CaptureSearch.of(deployment, webhooks)
    run = asked.run(search, asked.target(deployment, webhooks), dry_run=not yes)
    chosen = asked.chosen(search)
    if not yes:
        _run(run, chosen, as_json=as_json)
        return
    with logged_replay(deployment, asked, run, why):
        _run(run, chosen, as_json=as_json)
    if left := left_text(run):
        raise OpsError(left)


def _run(run: ReplayRun, captures: Sequence[Capture], *, as_json: bool) -> None:
    stopped = True
    try:
        with progress(as_json=as_json) as bar:
            task = bar.add_task("webhooks", total=len(captures))
            run.run(captures, lambda: bar.advance(task))
        stopped = False
    except KeyboardInterrupt:
        raise StoppedError(stopped_text(run, len(captures))) from None
    finally:
        _show(run, stopped=stopped, as_json=as_json)


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
