"""The command `webhooks replay`: sends captured webhooks again, to a queue or to a URL."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Annotated

from typer import BadParameter, Option

from once.ops.aws.clients import client
from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.redrive import RateLimiter
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.errors import OpsError, StoppedError
from once.ops.operator_log import Change, WhyOption, logged_change
from once.ops.terminal.console import JsonOption, ServiceOption, console, print_json, progress
from once.ops.webhooks._addresses import is_any, is_public
from once.ops.webhooks._capture_text import capture_line
from once.ops.webhooks._destination import Destination
from once.ops.webhooks._options import (
    SEARCH_PERIOD,
    CaptureFilter,
    EndpointOption,
    IdsArgument,
    SinceOption,
    StandingOption,
    TypeOption,
    UntilOption,
    find_webhooks,
)
from once.ops.webhooks._replay_run import DONE, Outcome, ReplayRun
from once.ops.webhooks._replay_safety import ReplaySafety
from once.ops.webhooks._replay_targets import QueueTarget, Target, UrlTarget
from once.ops.webhooks._selection import CaptureSearch
from once.webhooks.capture import Capture, Standing

_MOST_LINES = 50
_NOT_PUBLIC = (
    "which is not a public address: give --allow-private if it may receive customers' data"
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The options that say where the webhooks go, and how."""

    queue: str | None
    url: str | None
    allow_private: bool
    unsafe: bool
    takes_conflicts: bool

    def check(self) -> None:
        if (self.queue is None) is (self.url is None):
            raise BadParameter("give --to-queue CONSUMER or --to-url URL, and not both")
        if self.allow_private and self.url is None:
            raise BadParameter("is for --to-url", param_hint="--allow-private")
        if self.unsafe and self.queue is None:
            raise BadParameter("is for --to-queue", param_hint="--unsafe")

    def for_log(self, target: Target) -> dict[str, object]:
        # Of a URL, the path and the query may hold a password.
        host = target.destination.host if isinstance(target, UrlTarget) else None
        return {"to_queue": self.queue, "to_host": host, "unsafe": self.unsafe}

    def target(self, deployment: Deployment, webhooks: DeployedWebhooks) -> Target:
        if self.url is not None:
            rule = is_any if self.allow_private else is_public
            return UrlTarget(Destination.of(self.url, "--to-url", rule, _NOT_PUBLIC))
        records = DedupRecordReader.of(client("dynamodb"), deployment)
        return QueueTarget(
            sqs=client("sqs"),
            deployment=deployment,
            webhooks=webhooks,
            consumer=deployment.consumer(self.queue or ""),
            safety=ReplaySafety(records, self.unsafe),
            takes_conflicts=self.takes_conflicts,
        )


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
    given = _Given(
        queue=to_queue,
        url=to_url,
        allow_private=allow_private,
        unsafe=unsafe,
        takes_conflicts=bool(names) or standing is Standing.CONFLICT,
    )
    given.check()
    if not names and since is None:
        raise BadParameter("name webhooks by ID, or give --since")
    conditions = CaptureFilter.of(
        since, until, SEARCH_PERIOD, endpoint=endpoint, webhook_type=webhook_type, standing=standing
    )
    deployment, webhooks = find_webhooks(service)
    search = CaptureSearch.of(deployment, webhooks)
    run = ReplayRun(search.store, given.target(deployment, webhooks), RateLimiter(rate), not yes)
    chosen = _chosen(search, names or [], conditions, limit)
    if not yes:
        _run(run, chosen, as_json=as_json)
        return
    told = {**conditions.for_log(), "ids": _hashes(names or []), **given.for_log(run.target)}
    with logged_change(deployment, "webhooks replay", told, why) as change:
        _run_logged(run, chosen, change, as_json=as_json)
    _raise_if_left(run)


def _hashes(names: Sequence[str]) -> list[str]:
    return [f"SHA-256 {sha256(name.encode(errors='replace')).hexdigest()}" for name in names]


def _run_logged(
    run: ReplayRun, chosen: Sequence[Capture], change: Change, *, as_json: bool
) -> None:
    try:
        _run(run, chosen, as_json=as_json)
    finally:
        change.counts = {str(one): run.number(one) for one in Outcome if run.number(one)}
        if isinstance(run.target, QueueTarget):
            sent = (one for one in run.results if one.outcome is Outcome.SENT)
            change.message_ids = [one.detail for one in sent]


def _chosen(
    search: CaptureSearch, names: Sequence[str], conditions: CaptureFilter, limit: int
) -> list[Capture]:
    if names:
        found = search.by_ids(names, conditions)
    else:
        found = [*islice(search.matching(conditions), limit + 1)]
    if len(found) > limit:
        raise OpsError(
            f"more than {limit} webhooks match, and nothing was sent: narrow the choice, or raise "
            "--limit"
        )
    return sorted(found, key=lambda capture: capture.received_at)


def _run(run: ReplayRun, captures: Sequence[Capture], *, as_json: bool) -> None:
    stopped = True
    try:
        with progress(as_json=as_json) as bar:
            task = bar.add_task("webhooks", total=len(captures))
            run.run(captures, lambda: bar.advance(task))
        stopped = False
    except KeyboardInterrupt:
        raise StoppedError(_stopped_text(run, len(captures))) from None
    finally:
        _show(run, stopped=stopped, as_json=as_json)


def _show(run: ReplayRun, *, stopped: bool, as_json: bool) -> None:
    sent = run.number(*DONE)
    if as_json:
        results = [one.as_json() for one in run.results]
        print_json({"dry_run": run.dry_run, "stopped": stopped, "sent": sent, "webhooks": results})
        return
    for one in run.results[:_MOST_LINES]:
        console.print(str(one), soft_wrap=True)
    if len(run.results) > _MOST_LINES:
        console.print(f"… and {len(run.results) - _MOST_LINES} more: --json lists all")
    if run.dry_run:
        console.print(f"{sent} webhooks would be sent; nothing was sent: --yes sends them")
    else:
        console.print(f"{sent} of {len(run.results)} webhooks were sent")


def _stopped_text(run: ReplayRun, chosen: int) -> str:
    doubts = [one for one in run.results if one.outcome is Outcome.PERHAPS_SENT]
    told = "".join(f"\n  perhaps sent: {capture_line(one.capture)}" for one in doubts)
    untouched = chosen - len(run.results)
    return (
        f"stopped: {run.number(Outcome.SENT)} certainly sent; in doubt: {len(doubts)}; not tried: "
        f"{untouched}. Run the command again: a consumer recognises what it receives twice, and a "
        f"URL receives it again{told}"
    )


def _raise_if_left(run: ReplayRun) -> None:
    left = [one for one in run.results if one.outcome not in DONE]
    if left:
        lines = "".join(f"\n  {one}" for one in left[:_MOST_LINES])
        raise OpsError(f"{len(left)} webhooks were not sent, or not accepted:{lines}")
