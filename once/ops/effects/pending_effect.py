"""Pending effect: the dedup record that a key or a dead letter's id names, and its intent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from once.effects.intent import Intent, pending_update
from once.events.dedup_key import key_hash
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.assessment import read_contexts
from once.ops.dead_letters.letter import dead_letter_queues
from once.ops.dead_letters.search import QueueWalk, renewing
from once.ops.dedup_records import (
    DedupRecordReader,
    Item,
    UnreadableRecord,
    format_written_at,
    read_record,
)
from once.ops.errors import OpsError
from once.ops.terminal.formatting import format_epoch_seconds
from once.schema import CLOCK_MARGIN_SECONDS, Record, Standing

_MOST_LETTERS = 10_000
_HASH = re.compile(r"[0-9a-f]{64}")
_MESSAGE_ID = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")


@dataclass(frozen=True, slots=True)
class PendingEffect:
    """A pending effect.

    Attributes:
        pk: the partition key of its dedup record.
        item: the record, in DynamoDB's own JSON form.
        intent: its intent.
        message_ids: the ids of its dead letters, as far as they were read.
    """

    pk: str
    item: Item
    intent: Intent
    message_ids: tuple[str, ...] = ()

    def check_ended(self, now: datetime) -> None:
        """Check that no function may be calling the effect, by any clock.

        Raises:
            OpsError: one may.
        """
        end = self.intent.lease_until / 1000 + CLOCK_MARGIN_SECONDS
        if self.intent.standing is Standing.IN_FLIGHT and now.timestamp() < end:
            raise OpsError(
                "nothing was changed: a function may be calling the provider until "
                f"{format_epoch_seconds(end)}, clock differences included; run this command again "
                "after that"
            )


@dataclass(frozen=True, slots=True)
class PendingEffects:
    """The pending effects in the table of dedup records.

    Every method raises botocore.exceptions.BotoCoreError or ClientError if DynamoDB fails.
    """

    table: DedupRecordReader

    def get(self, pk: str, message_ids: Sequence[str] = ()) -> PendingEffect:
        """Return the pending effect of a dedup key.

        Args:
            pk: the key.
            message_ids: the ids of its dead letters.

        Raises:
            OpsError: no effect of this key is pending.
        """
        items = self.table.get([pk])
        if not items:
            raise OpsError(f"there is no dedup record of {pk}: no effect of it is pending")
        try:
            record = read_record(items[0])
        except UnreadableRecord as error:
            raise OpsError(f"the record of {pk} cannot be read: {error}") from None
        if record.intent is None:
            raise OpsError(
                f"{pk} was committed at {format_written_at(record)}: no effect is pending"
            )
        return PendingEffect(pk, items[0], record.intent, tuple(message_ids))

    def change(self, effect: PendingEffect, after: Intent) -> None:
        """Write the intent of a pending effect, which must be as it was read.

        Raises:
            OpsError: the record has changed meanwhile.
        """
        update = pending_update(self.table.name, effect.pk, effect.intent, after)
        try:
            self.table.dynamodb.transact_write_items(TransactItems=[{"Update": update}])
        except ClientError as error:
            if error.response["Error"]["Code"] != "TransactionCanceledException":
                raise
            raise OpsError(
                "nothing was changed: a function or another operator has changed the record "
                "meanwhile; run this command again to see it"
            ) from None
        except BotoCoreError:  # no answer: the new owner tells whether it was written
            owner = {"S": after.owner}
            if not any(item.get(Record.OWNER) == owner for item in self.table.get([effect.pk])):
                raise


def find_pending_effect(
    effects: PendingEffects, deployment: Deployment, name: str
) -> PendingEffect:
    """Return the pending effect that a name identifies.

    Args:
        effects: the pending effects.
        deployment: the deployment.
        name: a whole dedup key; or, of a message in a dead-letter queue, the SHA-256 of its key, or
            the beginning of its id.

    Raises:
        OpsError: no effect or several have this name, or the effect is not pending.
        botocore.exceptions.BotoCoreError, ClientError: a queue or the table cannot be read.
    """
    consumer, mark, _ = name.partition("#")
    if mark and consumer in deployment.identities:
        return effects.get(name)
    found = _letters_named(deployment, effects.table, name)
    if len(found) != 1:
        number = "several dead letters have" if found else "no dead letter with a record has"
        raise OpsError(
            f"{number} the name {name!r}: give a whole dedup key (consumer#…), or the id or key "
            "hash of one dead letter, as `once dlq list` and `once dlq show` print it"
        )
    [(pk, ids)] = found.items()
    return effects.get(pk, ids)


def _letters_named(
    deployment: Deployment, table: DedupRecordReader, name: str
) -> dict[str, list[str]]:
    """Return the ids of the dead letters with a name, by dedup key."""
    is_hash = _HASH.fullmatch(name) is not None
    found: dict[str, list[str]] = {}
    if not is_hash and not _MESSAGE_ID.fullmatch(name):
        return found
    queues = [queue for queue in dead_letter_queues(deployment) if queue.source_url]
    with QueueWalk(client("sqs"), queues, _MOST_LETTERS) as walk, renewing(walk):
        for page in walk.pages():
            chosen = [one for one in page if is_hash or one.message_id.startswith(name)]
            for context in read_contexts(table, chosen):
                if context.pk and (not is_hash or key_hash(context.pk) == name):
                    found.setdefault(context.pk, []).append(context.letter.message_id)
    return found
