"""Acknowledgement of failures, and the command `ack`: who works on them, since when, until when."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from typer import Argument, Option

from once.ops import terminal
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.queue_walk import error_pattern
from once.ops.operator_changes import WhyOption, logged_change
from once.ops.operator_notes import Acknowledgement, read_notes, short_name, write_acknowledgement
from once.ops.progress import find_deployment

DEFAULT_PERIOD = "4h"

app = terminal.command_group()


def acknowledge(
    deployment: Deployment,
    consumer: str,
    reason: str | None,
    error: str | None,
    *,
    why: str | None,
    period: timedelta,
) -> Acknowledgement | None:
    """Note that the caller works on failures for a period; return the note that this replaces.

    After an empty period, it holds no more.
    """
    pattern = None if error is None else error_pattern(error)
    told = {"consumer": consumer, "reason": reason, "done": not period}
    with logged_change(deployment, "ack", told, why) as change:
        now = datetime.now(UTC)
        note = Acknowledgement(consumer, reason, pattern, change.who, now, now + period, why or "")
        earlier = [one for one in read_notes(deployment).acknowledged if one.name == note.name]
        write_acknowledgement(deployment, note)
    return earlier[0] if earlier else None


@app.command("ack")
def ack_command(
    consumer: Annotated[
        str, Argument(metavar="CONSUMER", help="Name of the consumer, as `once status` shows it.")
    ],
    reason: Annotated[
        str | None, Option("--reason", help="Only its dead letters with this reason.")
    ] = None,
    error: Annotated[
        str | None, Option("--error", metavar="TEXT", help="Only its dead letters with this error.")
    ] = None,
    why: WhyOption = None,
    period: Annotated[
        str, Option("--for", metavar="AGE", help="How long the note holds: 90m, 26h, 2d.")
    ] = DEFAULT_PERIOD,
    done: Annotated[bool, Option("--done", help="Remove the note.")] = False,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Tell other operators that you work on a consumer's failures.

    `once status`, `once dlq list` and the console show who works on them since when. The
    note is yours in place of an earlier one about the same, and ends after --for.
    """
    holds = timedelta() if done else terminal.parse_age_option(period, option="--for")
    deployment = find_deployment(service)
    if consumer not in deployment.kept_events:
        deployment.consumer(consumer)
    earlier = acknowledge(deployment, consumer, reason, error, why=why, period=holds)
    if as_json:
        terminal.print_json(
            {"consumer": consumer, "done": done, "earlier": earlier and earlier.who}
        )
        return
    taken = f", in place of {short_name(earlier.who)}" if earlier and not done else ""
    told = "the note is removed" if done else f"noted for {terminal.format_age(holds)}{taken}"
    terminal.console.print(f"{consumer}: {told}", soft_wrap=True)
