"""Replay request: which captured webhooks are sent again, where they go, and how fast."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice

from typer import BadParameter

from once.ops.aws.clients import RateLimiter, client
from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.aws.deployment import Deployment
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.errors import OpsError
from once.ops.operator_log import logged_change
from once.ops.webhooks._addresses import is_any, is_public
from once.ops.webhooks._destination import Destination
from once.ops.webhooks._replay_safety import ReplaySafety
from once.ops.webhooks._replay_targets import QueueTarget, Target, UrlTarget
from once.ops.webhooks.capture_filter import CaptureFilter
from once.ops.webhooks.capture_search import CaptureSearch
from once.ops.webhooks.capture_text import capture_line
from once.ops.webhooks.replay_run import DONE, Outcome, ReplayRun
from once.webhooks.capture import Capture, Standing

MOST_LINES = 50
"""Most webhooks that a text lists."""

_NOT_PUBLIC = (
    "which is not a public address: give --allow-private if it may receive customers' data"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """A replay that an operator asks for.

    Attributes:
        names: ids of webhooks; empty for all that match the conditions.
        conditions: which webhooks, or where their ids are looked for.
        queue: the consumer whose queue receives their events.
        url: the URL that receives the requests themselves.
        allow_private: whether the URL may have an address that is not public.
        unsafe: whether a queue receives what a consumer may have forgotten.
        rate: most webhooks a second.
        limit: most webhooks; more are refused.
    """

    names: Sequence[str]
    conditions: CaptureFilter
    queue: str | None
    url: str | None
    allow_private: bool = False
    unsafe: bool = False
    rate: float = 10
    limit: int = 1000

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            typer.BadParameter: they do not.
        """
        if (self.queue is None) is (self.url is None):
            raise BadParameter("give --to-queue CONSUMER or --to-url URL, and not both")
        if self.allow_private and self.url is None:
            raise BadParameter("is for --to-url", param_hint="--allow-private")
        if self.unsafe and self.queue is None:
            raise BadParameter("is for --to-queue", param_hint="--unsafe")

    def target(self, deployment: Deployment, webhooks: DeployedWebhooks) -> Target:
        """Return the place that the webhooks are sent to.

        Raises:
            OpsError: the URL is none, or may not receive them; or there is no such consumer.
        """
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
            takes_conflicts=bool(self.names) or self.conditions.standing is Standing.CONFLICT,
        )

    def run(self, search: CaptureSearch, target: Target, *, dry_run: bool) -> ReplayRun:
        """Return the run to a target, which has not begun."""
        return ReplayRun(search.store, target, RateLimiter(self.rate), dry_run)

    def chosen(self, search: CaptureSearch) -> list[Capture]:
        """Return the webhooks, the oldest first.

        Raises:
            OpsError: there are too many, or an id matches none or several.
        """
        if self.names:
            found = search.by_ids(self.names, self.conditions)
        else:
            found = [*islice(search.matching(self.conditions), self.limit + 1)]
        if len(found) > self.limit:
            raise OpsError(
                f"more than {self.limit} webhooks match, and nothing was sent: narrow the choice, "
                "or raise --limit"
            )
        return sorted(found, key=lambda capture: capture.received_at)

    def for_log(self, target: Target) -> dict[str, object]:
        """Return the options for the operator log."""
        # Of a URL, the path and the query may hold a password.
        host = target.destination.host if isinstance(target, UrlTarget) else None
        where = {"to_queue": self.queue, "to_host": host, "unsafe": self.unsafe}
        return {**self.conditions.for_log(), "ids": _hashes(self.names), **where}


@contextmanager
def logged_replay(
    deployment: Deployment, asked: ReplayRequest, run: ReplayRun, why: str | None
) -> Iterator[None]:
    """Write entries to the operator log, before a run and after it with what it sent.

    Raises:
        OpsError: they cannot be written.
    """
    with logged_change(deployment, "webhooks replay", asked.for_log(run.target), why) as change:
        try:
            yield
        finally:
            change.counts = {str(one): run.number(one) for one in Outcome if run.number(one)}
            if isinstance(run.target, QueueTarget):
                sent = (one for one in run.results if one.outcome is Outcome.SENT)
                change.message_ids = [one.detail for one in sent]


def stopped_text(run: ReplayRun, chosen: int) -> str:
    """Return what is certain after a run was stopped; `chosen` is the number of its webhooks."""
    doubts = [one for one in run.results if one.outcome is Outcome.PERHAPS_SENT]
    told = "".join(f"\n  perhaps sent: {capture_line(one.capture)}" for one in doubts)
    untouched = chosen - len(run.results)
    return (
        f"stopped: {run.number(Outcome.SENT)} certainly sent; in doubt: {len(doubts)}; not tried: "
        f"{untouched}. Run the command again: a consumer recognises what it receives twice, and a "
        f"URL receives it again{told}"
    )


def left_text(run: ReplayRun) -> str | None:
    """Return the text about webhooks that were not sent; None if all were."""
    left = [one for one in run.results if one.outcome not in DONE]
    if not left:
        return None
    lines = "".join(f"\n  {one}" for one in left[:MOST_LINES])
    return f"{len(left)} webhooks were not sent, or not accepted:{lines}"


def _hashes(names: Sequence[str]) -> list[str]:
    return [f"SHA-256 {sha256(name.encode(errors='replace')).hexdigest()}" for name in names]
