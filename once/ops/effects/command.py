"""The commands `effects list` and `effects settle`."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from typer import Argument, Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dedup_records import DedupRecordReader, record_lines
from once.ops.effects._table import effects_table
from once.ops.effects.decision import Decision, read_decision
from once.ops.effects.pending_effect import PendingEffect, PendingEffects, find_pending_effect
from once.ops.effects.pending_list import MOST_READ, list_pending
from once.ops.effects.settlement import settle
from once.ops.errors import OpsError
from once.ops.terminal.console import ServiceOption, command_group, console, error_console
from once.ops.terminal.formatting import json_text

app = command_group(
    help="Effects: list the pending ones, settle one whose outcome was found out by hand."
)

_KeyArgument = Annotated[
    str,
    Argument(
        metavar="KEY",
        help="A whole dedup key (consumer#…); or, of a dead letter, its id or its key hash.",
    ),
]
_DoneOption = Annotated[
    str | None,
    Option("--done", metavar="JSON", help="It was done; JSON is what the effect returns."),
]
_RefusedOption = Annotated[
    str | None,
    Option("--refused", metavar="CLASS", help="The provider refused; CLASS is the Refusal."),
]
_TextOption = Annotated[
    str | None, Option("--text", help="With --refused: the argument of the refusal.")
]
_NotDoneOption = Annotated[
    bool, Option("--not-done", help="It was certainly not done: it will be called again.")
]
_NewKeyOption = Annotated[
    bool,
    Option("--new-key", help="With --not-done: the provider repeats a saved error for its key."),
]
_WhyOption = Annotated[
    str, Option("--why", metavar="TEXT", help="How the outcome was found out; it is recorded.")
]
_YesOption = Annotated[bool, Option("--yes", help="Settle without asking.")]
_DryRunOption = Annotated[bool, Option("--dry-run", help="Show the record, and change nothing.")]
_JsonOption = Annotated[bool, Option("--json", help="Print JSON in place of text.")]


@app.command("list")
def list_command(
    most: Annotated[int, Option(min=1, help="Most records to read.")] = MOST_READ,
    service: ServiceOption = "once",
    as_json: _JsonOption = False,
) -> None:
    """Show the pending effects, the oldest first, among the records that are read.

    No index has them: the command scans the dedup table, up to --most records. Most of them end
    by themselves, with the next delivery of their message.
    """
    table = DedupRecordReader(client("dynamodb"), Deployment.find(service).dedup_table)
    found = list_pending(table, most)
    if as_json:
        effects = [one.as_json() for one in found.effects]
        typer.echo(json_text({"effects": effects, "read": found.read, "left": found.left}))
        return
    if found.effects:
        console.print(effects_table(found.effects, datetime.now(UTC)))
    console.print(f"{len(found.effects)} pending effects", soft_wrap=True)
    if found.note:
        console.print(f"note: {found.note}", soft_wrap=True)


@app.command("settle")
def settle_command(
    key: _KeyArgument,
    why: _WhyOption,
    done: _DoneOption = None,
    refused: _RefusedOption = None,
    text: _TextOption = None,
    not_done: _NotDoneOption = False,
    new_key: _NewKeyOption = False,
    yes: _YesOption = False,
    dry_run: _DryRunOption = False,
    as_json: _JsonOption = False,
    service: ServiceOption = "once",
) -> None:
    """Close a pending effect whose outcome you found out at its provider.

    The outcome is stored in the dedup record. The next delivery of the
    message, such as a redrive of its dead letter, commits it with all writes
    and events of the effect's completion, and does not call the provider.
    After --not-done, it calls the provider again.

    The function decodes the outcome. If it has the wrong shape, the message
    becomes a dead letter again, and the effect can be settled again.
    """
    decision = read_decision(done, refused, text, is_not_done=not_done, new_key=new_key)
    deployment = Deployment.find(service)
    effects = PendingEffects(DedupRecordReader(client("dynamodb"), deployment.dedup_table))
    effect = find_pending_effect(effects, deployment, key)
    now = datetime.now(UTC)
    error_console.print(effect.pk, *record_lines(effect.item, now), sep="\n", soft_wrap=True)
    error_console.print(f"to be settled as {decision.summary}", soft_wrap=True)
    effect.check_ended(now)
    if not dry_run:
        if not yes:
            _confirm()
        settle(deployment, effects, effect, decision, why)
    _show(effect, decision, as_json=as_json, dry_run=dry_run)


def _confirm() -> None:
    try:
        typer.confirm("settle it?", abort=True, err=True)
    except typer.Abort:
        raise OpsError("nothing was changed: answer y, or give --yes") from None


def _show(effect: PendingEffect, decision: Decision, *, as_json: bool, dry_run: bool) -> None:
    ids = [*effect.message_ids]
    if as_json:
        found = {"key": effect.pk, "effect": effect.intent.effect, "message_ids": ids}
        state = {"before": effect.intent.standing, "as": decision.name, "settled": not dry_run}
        typer.echo(json_text(found | state))
        return
    choice = " ".join(ids) if ids else f"--key '{effect.pk}'"
    done = "nothing was changed" if dry_run else f"settled as {decision.summary}"
    console.print(f"{done}; next: `once dlq redrive {choice}`", soft_wrap=True)
