"""Pause of a consumer, and the commands `pause` and `resume`.

A pause disables the event source mappings of the consumer's queues, and leaves a note that says who
did it, and why. Deployments do not set the state of a mapping; where one enables it all the same,
`once status` compares it with the note.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from typer import Argument, BadParameter

from once.ops import terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.errors import OpsError
from once.ops.operator_changes import ChangeOptions, logged_change
from once.ops.operator_notes import Pause, write_pause
from once.ops.progress import find_deployment, saying
from once.ops.status import MappingStatus, QueueStatus, read_mappings, read_status

WAIT_SECONDS = 180.0
"""Time in which Lambda must have changed the mappings. It takes up to a minute."""
LOOK_SECONDS = 1.0

app = terminal.command_group()

_ConsumerArgument = Annotated[str, Argument(metavar="CONSUMER", help="Name of the consumer.")]


@dataclass(frozen=True, slots=True)
class MappingChange:
    """The pause of a consumer, or its resumption, before it is done."""

    deployment: Deployment
    consumer: DeployedConsumer
    status: QueueStatus
    pausing: bool

    @classmethod
    def plan(cls, deployment: Deployment, name: str, *, pausing: bool) -> "MappingChange":
        """Read the state of a consumer.

        Raises:
            OpsError: its mappings are not known, or are as the change would leave them.
        """
        consumer = deployment.consumer(name)
        [status] = [row for row in read_status(deployment) if row.consumer == name]
        if not status.mappings:
            raise OpsError(
                f"no event source mapping of {consumer.function_name} could be read: the right "
                "to list them is in the policies of the output OperatorReads"
            )
        if pausing and status.pause and status.is_disabled:
            raise OpsError(f"{name} is {status.pause}")
        if not (pausing or status.pause or status.is_disabled):
            raise OpsError(f"{name} is not paused")
        return cls(deployment, consumer, status, pausing)

    @property
    def command(self) -> str:
        return "pause" if self.pausing else "resume"

    @property
    def lines(self) -> list[str]:
        """What the change does, as sentences."""
        row, waiting = self.status, terminal.counted(self.status.waiting, "message")
        oldest = "" if row.oldest_seconds is None else f", the oldest {row.oldest_text}"
        found = [
            f"{row.consumer}: {waiting} in its queues{oldest}",
            *filter(None, [row.pause_text]),
        ]
        if not self.pausing:
            return [*found, "its function receives messages again, the waiting ones first"]
        pause = row.pause or self._note("", "")
        return [
            *found,
            "batches under way end as usual, and no other begins; messages wait in the queue",
            f"SQS deletes a message {row.retention_text} after it was sent: the first at "
            f"{terminal.format_time(row.deleted_from(pause))}",
            "an effect under way ends after the resume, unless its provider has forgotten its key "
            "(Stripe: after 23 h): then a person settles it",
        ]

    def run(self, why: str | None) -> None:
        """Write the note and the operator log, and wait until Lambda has changed the mappings."""
        told = {"consumer": self.consumer.name}
        with logged_change(self.deployment, self.command, told, why) as change:
            # Of a command that is killed half way, the note and the mappings differ: `once status`
            # says so, and the same command ends it.
            if self.pausing:
                note = self.status.pause or self._note(change.who, why or "")
                write_pause(self.deployment, self.consumer.name, note)
            self._switch()
            if not self.pausing:
                write_pause(self.deployment, self.consumer.name, None)
            change.counts = {"mappings": len(self.status.mappings)}

    def _note(self, who: str, why: str) -> Pause:
        now = datetime.now(UTC)
        return Pause(who, now, why, now - timedelta(seconds=self.status.oldest_seconds or 0))

    def _switch(self) -> None:
        wanted = "Disabled" if self.pausing else "Enabled"
        left = [each for each in self.status.mappings if each.state != wanted]
        function = self.consumer.function_name
        with saying(f"Lambda changes the event source mappings of {function}"):
            switch_mappings(left, enabled=not self.pausing)


def switch_mappings(mappings: Sequence[MappingStatus], *, enabled: bool) -> None:
    """Enable or disable event source mappings, and wait until Lambda has done it."""
    wanted, ids = "Enabled" if enabled else "Disabled", {each.uuid for each in mappings}
    for each in mappings:
        client("lambda").update_event_source_mapping(UUID=each.uuid, Enabled=enabled)
    end = time.monotonic() + WAIT_SECONDS
    while states := {
        each.state
        for found in read_mappings().values()
        for each in found
        if each.uuid in ids and each.state != wanted
    }:
        if time.monotonic() > end:
            raise OpsError(
                f"its mappings are {', '.join(sorted(states))} after {WAIT_SECONDS:.0f} s, "
                f"and not {wanted}: run this command again"
            )
        time.sleep(LOOK_SECONDS)


@app.command("pause")
def pause_command(
    consumer: _ConsumerArgument, how: ChangeOptions, service: terminal.ServiceOption = "once"
) -> None:
    """Pause a consumer: its function receives no message.

    Its event source mappings are disabled until `once resume CONSUMER`, and a note says who
    paused it, and why (--why). Messages wait in its queue, which keeps them for four days.
    `once status`, the console and `once trace` show the pause. A deployment keeps it, unless it
    sets the state of a mapping: then `once status` says so.
    """
    if not (how.why or how.dry_run):
        raise BadParameter("say why: other operators see it", param_hint="--why")
    _change(consumer, service, how, pausing=True)


@app.command("resume")
def resume_command(
    consumer: _ConsumerArgument, how: ChangeOptions, service: terminal.ServiceOption = "once"
) -> None:
    """Let a paused consumer receive messages again."""
    _change(consumer, service, how, pausing=False)


def _change(consumer: str, service: str, how: ChangeOptions, *, pausing: bool) -> None:
    deployment = find_deployment(service)
    with saying("reading queues and mappings"):
        change = MappingChange.plan(deployment, consumer, pausing=pausing)
    agreed = how.agreed(f"{change.command} {consumer}?", *change.lines)
    if agreed:
        change.run(how.why)
    if how.as_json:
        paused = pausing if agreed else change.status.pause is not None
        terminal.print_json({"consumer": consumer, "dry_run": how.dry_run, "paused": paused})
    elif agreed:
        done = (
            f"is paused: `once resume {consumer}` ends it" if pausing else "receives messages again"
        )
        terminal.console.print(f"{consumer} {done}", soft_wrap=True)
