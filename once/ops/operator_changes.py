"""Changes by an operator: plan and question, and the operator log with two entries for each.

The entries are written before the change and with its outcome.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import RenderableType
from typer import Option

from once.ops import terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError, StoppedError, error_with_remedy

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

MAX_IDS = 1000
"""Maximum number of message ids in an entry: CloudWatch Logs accepts 1 MB."""

WhyOption = Annotated[
    str | None, Option("--why", metavar="TEXT", help="Reason of the change, for the operator log.")
]


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """Options of every command that changes something: it shows its plan, and asks."""

    yes: Annotated[bool, Option("--yes", help="Go on without asking.")] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Show the plan, and change nothing.")] = False
    why: WhyOption = None
    as_json: terminal.JsonOption = False

    def agreed(self, question: str | None, *plan: RenderableType) -> bool:
        """Show the plan, ask, and tell whether to go on; without a question there is no change."""
        shown = terminal.error_console if self.as_json else terminal.console
        for part in plan:
            shown.print(part, soft_wrap=True)
        if question and not (self.yes or self.dry_run):
            try:
                typer.confirm(question, abort=True, err=True)
            except typer.Abort:
                raise OpsError("nothing was changed: answer y, or give --yes") from None
        return bool(question) and not self.dry_run

    def reason(self) -> str:
        """Return `--why`, or what the operator types in its place."""
        try:
            return self.why or str(typer.prompt("why, for other operators and the log", err=True))
        except typer.Abort:
            raise OpsError("nothing was changed: say why, or give --why") from None


@dataclass(slots=True)
class Change:
    """A change under way by a caller. The command fills in the rest for the second entry."""

    who: str
    counts: Mapping[str, int] = field(default_factory=dict)
    message_ids: list[str] = field(default_factory=list)


@contextmanager
def logged_change(
    deployment: Deployment, command: str, arguments: Mapping[str, Any], why: str | None = None
) -> Iterator[Change]:
    """Write an entry before a change, and one with its outcome after it, also after Ctrl-C.

    A command that is killed leaves an entry without an outcome.

    Args:
        command: the command, such as `dlq redrive`.
        arguments: its arguments, without bodies and keys; those that are not set are left out.

    Raises:
        OpsError: the first entry cannot be written: nothing was changed. Or the second cannot.
    """
    given = {name: value for name, value in arguments.items() if value}
    group, number = deployment.operator_log, uuid4().hex
    stream = f"{datetime.now(UTC):%Y/%m/%d}/{number}"
    # The intent is written before the change: a change that cannot be attributed does not happen,
    # and a command that is killed leaves a trace.
    try:
        who = client("sts").get_caller_identity()["Arn"]
        known = {
            "change": number,
            "who": who,
            "host": gethostname(),
            "version": version("once-consumer"),
        }
        facts = {**known, "command": command, "arguments": given, "why": why}
        logs = client("logs")
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
        _write(logs, group, stream, {**facts, "phase": "intent"})
    except (BotoCoreError, ClientError, OpsError) as error:
        raise OpsError(
            f"nothing was changed: a change must be written to the operator log {group} "
            f"first, and this failed: {error_with_remedy(error)}"
        ) from error
    change = Change(who)

    def close(outcome: str) -> str | None:
        """Write the outcome; return why this failed, if it did."""
        entry = {**facts, "phase": "outcome", "outcome": outcome, "counts": {**change.counts}}
        ids = {"message_ids": change.message_ids[:MAX_IDS]} if change.message_ids else {}
        try:
            _write(logs, group, stream, {**entry, **ids})
        except (BotoCoreError, ClientError, OpsError) as error:
            return (
                f"the outcome ({outcome}) could not be written to the operator log {group}, "
                f"which has the intent alone: {error_with_remedy(error)}"
            )
        return None

    try:
        yield change
    except BaseException as error:
        stopped = isinstance(error, (KeyboardInterrupt, StoppedError))
        if fault := close("stopped" if stopped else "failed"):
            terminal.error_console.print(f"error: {fault}", soft_wrap=True)
        raise
    if fault := close("done"):
        raise OpsError(fault)


def _write(logs: "CloudWatchLogsClient", group: str, stream: str, facts: Mapping[str, Any]) -> None:
    entry = {**facts, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}
    answer = logs.put_log_events(
        logGroupName=group,
        logStreamName=stream,
        logEvents=[{"timestamp": int(time.time() * 1000), "message": json.dumps(entry)}],
    )
    if answer.get("rejectedLogEventsInfo"):
        raise OpsError("CloudWatch Logs refuses its time: set the clock of this machine")
