"""Effects: lists the pending ones, and settles one whose outcome a person found out.

In: a dedup key, its SHA-256 or a dead letter's id, and the outcome. Out: a changed pending record,
which the next delivery completes.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError
from typer import Argument, BadParameter, Option

from once.effects.executor import described_outcome, refused_text, returned_text
from once.effects.ledger import Intent, not_done, pending_update, settled
from once.errors import UNREADABLE
from once.events.identity import consumer_of, key_hash
from once.names import CLOCK_MARGIN_SECONDS, Record, Standing, State
from once.ops import dedup_records, operator_changes, terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import assessment, dead_letter, queue_walk
from once.ops.effect_shapes import faults_of, shape_of
from once.ops.errors import NotFoundError, OpsError
from once.ops.progress import find_deployment, saying

MAX_READ = 20_000
"""Maximum number of records that are read by default."""

_CHOICES = "--done / --refused / --not-done / --recorded"
_MESSAGE_ID = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")

app = terminal.command_group()


@app.command("list")
def list_command(
    limit: Annotated[int, Option(min=1, help="Maximum number of records to read.")] = MAX_READ,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the pending effects, the unknown and the oldest first, among the records read.

    No index has them: the command scans the dedup table, up to --limit records. Most of them end
    by themselves, with the next delivery of their message.
    """
    table = dedup_records.DedupRecordReader(
        client("dynamodb"), find_deployment(service).dedup_table
    )
    with saying("reading the dedup table"):
        found = list_pending(table, limit)
    if as_json:
        terminal.print_json(asdict(found))
        return
    if found.effects:
        now = datetime.now(UTC)
        for one in found.effects:  # a line each, which is not cut: a key can be copied
            age = terminal.format_age(now - one["since"]) if one["since"] else terminal.UNKNOWN
            cells = (one["standing"] or terminal.UNKNOWN, age, one["effect"] or terminal.UNKNOWN)
            line = "  ".join(f"{terminal.single_line(each):<9}" for each in cells)
            style = "red" if one["standing"] == Standing.UNKNOWN else ""
            told = f"{line}  {terminal.single_line(one['key'])}"
            terminal.console.print(told, style=style, soft_wrap=True)
    terminal.console.print(found.summary, soft_wrap=True)
    if found.note:
        terminal.console.print(f"note: {found.note}", soft_wrap=True)


@app.command("settle")
def settle_command(
    key: Annotated[
        str,
        Argument(
            metavar="KEY",
            help="A whole dedup key (consumer#…); or, of a dead letter, its id or its key hash.",
        ),
    ],
    how: operator_changes.ChangeOptions,
    done: Annotated[
        str | None,
        Option("--done", metavar="JSON", help="It was done; JSON is what the effect returns."),
    ] = None,
    refused: Annotated[
        str | None,
        Option("--refused", metavar="CLASS", help="The provider refused; CLASS is the Refusal."),
    ] = None,
    text: Annotated[
        str | None, Option("--text", help="With --refused: the argument of the refusal.")
    ] = None,
    is_not_done: Annotated[
        bool, Option("--not-done", help="It was certainly not done: it will be called again.")
    ] = False,
    is_recorded: Annotated[
        bool,
        Option("--recorded", help="It has the outcome that its dead letter shows: `once-outcome`."),
    ] = False,
    new_key: Annotated[
        bool,
        Option(
            "--new-key", help="With --not-done: the provider repeats a saved error for its key."
        ),
    ] = False,
    undeclared: Annotated[
        bool,
        Option(
            "--undeclared",
            help="Store also what the effect did not declare when it was called: another version "
            "serves now.",
        ),
    ] = False,
    service: terminal.ServiceOption = "once",
) -> None:
    """Close a pending effect whose outcome you found out at its provider.

    The outcome is stored in the dedup record. The next delivery of the
    message, such as a redrive of its dead letter, commits it with all writes
    and events of the effect's completion, and does not call the provider.
    After --not-done, it calls the provider again.

    An outcome that the effect's function does not declare is refused, also in a
    dry run. The plan shows the effect's policy, and the shape of what it returns.
    """
    if not how.why:
        raise BadParameter("say how the outcome was found out; it is recorded", param_hint="--why")
    decision = None
    if not is_recorded:
        decision = read_decision(done, refused, text, is_not_done=is_not_done, new_key=new_key)
    elif is_not_done or new_key or (done, refused, text) != (None, None, None):
        raise BadParameter("stands alone", param_hint="--recorded")
    deployment = find_deployment(service)
    table = dedup_records.DedupRecordReader(client("dynamodb"), deployment.dedup_table)
    with saying("looking for the record"):
        effect = _named_effect(deployment, table, key)
    decision, now = decision or recorded_decision(effect), datetime.now(UTC)
    effect.check_ended(now)
    if not undeclared:
        decision.check_fits(effect)
    lines = dedup_records.record_lines(effect.item, now)
    summary = f"to be settled as {decision.summary}"
    if settled := how.agreed("settle it?", effect.pk, *lines, summary):
        settle(deployment, table, effect, decision, how.why)
    ids = [*effect.message_ids]
    if how.as_json:
        found = {"key": effect.pk, "effect": effect.intent.effect, "message_ids": ids}
        state = {"before": effect.intent.standing, "as": decision.name, "settled": settled}
        terminal.print_json(found | state)
        return
    if settled:
        choice = " ".join(ids) if ids else f"--key '{effect.pk}'"
        told = f"settled as {decision.summary}; next: `once dlq redrive {choice}`"
        terminal.console.print(told, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class PendingList:
    """Pending effects, the oldest first, with the number of records that were read.

    Each has the facts of its record by name; None for one that is missing or cannot be read.
    `left` is the approximate number of records that were not read; 0 if all were.
    """

    effects: list[dict[str, Any]]
    read: int
    left: int

    @property
    def summary(self) -> str:
        """Their number: the unknown ones, which may have been done, and the others."""
        unknown = sum(one["standing"] == Standing.UNKNOWN for one in self.effects)
        told = terminal.counted(len(self.effects), "pending effect")
        if not self.effects:
            return told
        return (
            f"{told}: {unknown} unknown, which may have been done: find out at the provider if the "
            f"message is a dead letter; {len(self.effects) - unknown} that end by themselves, with "
            "the next delivery"
        )

    @property
    def note(self) -> str | None:
        """A remark on records that were not read; None if all were."""
        if not self.left:
            return None
        return (
            f"{self.read} records were read, and about {self.left} more were not: a pending effect "
            f"may be among them. `once effects list --limit {self.read + self.left}` reads them; "
            "`once dlq list --reason effect-unknown` lists all that need a person"
        )


def list_pending(table: dedup_records.DedupRecordReader, most: int = MAX_READ) -> PendingList:
    """Return the pending effects among at most so many records, which are read by a scan."""
    found = table.scan_some(
        "#state = :pending",
        {":pending": {"S": State.PENDING}},
        most=most,
        names={"#state": Record.STATE},  # a reserved word
    )
    texts = (Record.EFFECT, Record.STANDING, Record.PROVIDER_KEY)
    times = {
        "since": Record.COMMITTED_AT,
        "lease_until": Record.LEASE_UNTIL,
        "key_expires_at": Record.KEY_EXPIRES_AT,
    }
    effects: list[dict[str, Any]] = [
        {
            "key": (pk := item[Record.PK]["S"]),
            "key_hash": key_hash(pk),
            "consumer": consumer_of(pk),
            **{str(name): dedup_records.text_attribute(item, name) for name in texts},
            **{name: dedup_records.time_attribute(item, of) for name, of in times.items()},
            "settled": Record.SETTLEMENT in item,
        }
        for item in found.items
    ]
    # Unknown ones first, and of each kind the oldest.
    effects.sort(
        key=lambda one: (
            one["standing"] != Standing.UNKNOWN,
            one["since"].timestamp() if one["since"] else 0.0,
            one["key"],
        )
    )
    left = 0 if found.complete else max(1, table.approximate_count() - found.read)
    return PendingList(effects, found.read, left)


@dataclass(frozen=True, slots=True)
class PendingEffect:
    """A pending effect: its dedup record, by its partition key, and the intent in the record.

    `message_ids` are those of its dead letters, as far as they were read; `outcome` is the one that
    the newest of them carries.
    """

    pk: str
    item: dedup_records.Item
    intent: Intent
    message_ids: tuple[str, ...] = ()
    outcome: str | None = None

    def check_ended(self, now: datetime) -> None:
        """Check that no function may be calling the effect, by any clock."""
        end = self.intent.lease_until / 1000 + CLOCK_MARGIN_SECONDS
        if self.intent.standing is Standing.IN_FLIGHT and now.timestamp() < end:
            raise OpsError(
                "nothing was changed: a function may be calling the provider until "
                f"{terminal.format_epoch_seconds(end)}, clock differences included; run this "
                "command again after that"
            )


def pending_effect(
    table: dedup_records.DedupRecordReader,
    pk: str,
    dead_letters: Sequence[dead_letter.DeadLetter] = (),
) -> PendingEffect:
    """Return the pending effect of a dedup key, with its dead letters as far as they are known."""
    items = table.get([pk])
    if not items:
        raise NotFoundError(f"there is no dedup record of {pk}: no effect of it is pending")
    try:
        record = dedup_records.read_record(items[0])
    except dedup_records.UnreadableRecord as error:
        raise OpsError(f"the record of {pk} cannot be read: {error}") from None
    if record.intent is None:
        raise NotFoundError(
            f"{pk} was committed at {dedup_records.format_written_at(record)}: no effect is pending"
        )
    ids = tuple(each.message_id for each in dead_letters)
    outcomes = {each.sent_at: each.outcome for each in dead_letters if each.outcome}
    newest = outcomes[max(outcomes)] if outcomes else None
    return PendingEffect(pk, items[0], record.intent, ids, newest)


def _named_effect(
    deployment: Deployment, table: dedup_records.DedupRecordReader, name: str
) -> PendingEffect:
    """Return the pending effect of a key, or of the dead letter with this id or key hash."""
    consumer, mark, _ = name.partition("#")
    if mark and consumer in deployment.identities:
        return pending_effect(table, name)
    is_hash = terminal.SHA256_HEX.fullmatch(name) is not None
    found: dict[str, list[dead_letter.DeadLetter]] = {}  # by dedup key
    if is_hash or _MESSAGE_ID.fullmatch(name):
        queues = [queue for queue in dead_letter.dead_letter_queues(deployment) if queue.source_url]
        with queue_walk.open_search(queues, queue_walk.DEFAULT_LIMIT) as walk:
            for page in walk.pages():
                chosen = [one for one in page if is_hash or one.message_id.startswith(name)]
                for one in assessment.assess_messages(table, chosen):
                    if one.pk and (not is_hash or key_hash(one.pk) == name):
                        found.setdefault(one.pk, []).append(one.message)
        if not found:
            walk.raise_if_hidden(f"{queue_walk.unseen_text(name)}, and ")
    if len(found) != 1:
        number = "several dead letters have" if found else "no dead letter with a record has"
        raise OpsError(
            f"{number} the name {name!r}: give a whole dedup key (consumer#…), or the id or key "
            "hash of one dead letter, as `once dlq list` prints it"
        )
    [(pk, dead_letters)] = found.items()
    return pending_effect(table, pk, dead_letters)


@dataclass(frozen=True, slots=True)
class Decision:
    """An operator's finding about an effect: `done`, `refused` or `not-done`, and its text.

    `change` returns the intent after the decision, from the intent before and the settlement.
    `outcome` is the JSON of what was done, or the class of the refusal.
    """

    name: str
    summary: str
    change: Callable[[Intent, str], Intent]
    outcome: str = ""

    def check_fits(self, effect: PendingEffect) -> None:
        """Check that the function can decode the outcome, by what it declared with the intent.

        Raises:
            OpsError: it cannot: the message would be a dead letter again.
        """
        declared, faults = dedup_records.declared(effect.intent), list[str]()
        if declared is None:
            return
        if self.name == "done" and declared.returns is not None:
            faults = [*faults_of(msgspec.json.decode(self.outcome), declared.returns)]
            expected = f"the effect returns {shape_of(declared.returns)}"
        elif self.name == "refused" and self.outcome not in declared.refusals:
            faults = [f"{self.outcome} is no refusal that the consumer answers"]
            expected = f"it answers {', '.join(declared.refusals) or 'none'}"
        if faults:
            raise OpsError(
                f"nothing was changed: {'; '.join(faults)}; {expected}; if another version serves "
                "now, --undeclared stores it"
            )


def read_decision(
    done: str | None, refused: str | None, text: str | None, *, is_not_done: bool, new_key: bool
) -> Decision:
    if sum((done is not None, refused is not None, is_not_done)) != 1:
        raise BadParameter("give exactly one of these", param_hint=_CHOICES)
    if text is not None and refused is None:
        raise BadParameter("is an argument of the refusal", param_hint="--text")
    if new_key and not is_not_done:
        raise BadParameter("is for an effect that is called again", param_hint="--new-key")
    if refused is not None:
        outcome = refused_text(refused, [] if text is None else [text])
        return Decision("refused", f"refused, {refused}", _with_outcome(outcome), refused)
    if done is None:
        again = ", under a new provider key" if new_key else ""
        summary = f"not done: it will be called again{again}"
        return Decision("not-done", summary, partial(not_done, new_key=new_key))
    try:
        msgspec.json.decode(done)
    except UNREADABLE as error:
        raise BadParameter(
            f"it is no JSON ({error}); a text needs quotation marks of its own: '\"ch_1\"'",
            param_hint="--done",
        ) from None
    content = done.strip()
    outcome = returned_text(content.encode())
    summary = f"done, with the outcome {content}"
    return Decision("done", summary, _with_outcome(outcome), content)


def recorded_decision(effect: PendingEffect) -> Decision:
    """Return the decision for the outcome that the effect's dead letter carries."""
    if effect.outcome is None:
        raise OpsError(
            f"no dead letter that was read has an outcome of {effect.pk}: name the dead letter by "
            "its id, or find the outcome out at the provider and give --done or --refused"
        )
    try:
        name, outcome = described_outcome(effect.outcome)
    except UNREADABLE:
        raise OpsError(
            "the outcome in the dead letter cannot be stored as it is, because it has no JSON form "
            "or was over the limit: read it with `once dlq show MESSAGE_ID`, and give --done or "
            "--refused"
        ) from None
    summary = f"{name}, {outcome}" if name == "refused" else f"done, with the outcome {outcome}"
    found = outcome.partition("(")[0] if name == "refused" else outcome
    return Decision(name, summary, _with_outcome(effect.outcome), found)


def _with_outcome(outcome: str) -> Callable[[Intent, str], Intent]:
    return lambda intent, entry: settled(intent, outcome, entry)


def settle(
    deployment: Deployment,
    table: dedup_records.DedupRecordReader,
    effect: PendingEffect,
    decision: Decision,
    why: str,
) -> None:
    """Write an operator's decision into the pending record, and an entry into the operator log.

    The effect's record must be as it was read. Record and operator log keep `why`, which says how
    the outcome was found out.
    """
    effect.check_ended(datetime.now(UTC))  # again: minutes may have passed since the question
    who = client("sts").get_caller_identity()["Arn"]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"as": decision.name, "by": who, "at": at, "why": why}
    after = decision.change(effect.intent, json.dumps(entry, ensure_ascii=False))
    told = {"key_hash": key_hash(effect.pk), "effect": effect.intent.effect, "as": decision.name}
    with operator_changes.logged_change(deployment, "effects settle", told, why) as change:
        write_intent(table, effect, after)
        change.counts = {"settled": 1}


def write_intent(
    table: dedup_records.DedupRecordReader, effect: PendingEffect, after: Intent
) -> None:
    """Write the intent of a pending effect, whose record must be as it was read."""
    update = pending_update(table.name, effect.pk, effect.intent, after)
    try:
        table.dynamodb.transact_write_items(TransactItems=[{"Update": update}])
    except ClientError as error:
        if error.response["Error"]["Code"] != "TransactionCanceledException":
            raise
        raise OpsError(
            "nothing was changed: a function or another operator has changed the record "
            "meanwhile; run this command again to see it"
        ) from None
    except BotoCoreError:  # no answer: the new owner tells whether it was written
        owner = {"S": after.owner}
        if not any(item.get(Record.OWNER) == owner for item in table.get([effect.pk])):
            raise
