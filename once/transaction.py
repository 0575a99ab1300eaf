"""Transaction: what a handler fills with reads, writes, events to publish, and one effect.

Nothing is sent before the handler has returned. All of it then commits together with the event's
dedup record, in one request. Every item that is written gets the id of its commit, so that the
commit of a transaction which has read the item can be on condition that it has not changed.
"""

import os
from collections.abc import Callable, Mapping, Set
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import Struct
from msgspec.json import encode

from once.business_tables import Item, ItemKey, ItemT, Table, item_key
from once.effects.declaration import Effect, RequestT
from once.effects.ledger import Intent
from once.errors import InvalidWrite, Refusal
from once.events.cloud_event import CloudEvent
from once.events.identity import commit_prefix
from once.events.models import is_typed_dict, model_of
from once.events.outgoing import ClaimPlace, Draft, draft, wait_of
from once.settings import CommitSettings, TableSettings
from once.write_expressions import CHANGES, Action, ItemVersion, Terms, UpdateTerms, add_terms

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

    from once.former_records import FormerRecord

Values = Mapping[str, Any] | None
Reader = Callable[[TableSettings, Item], dict[str, Any] | None]
"""Reads an item by its primary key; see `once.business_tables.read_item`."""

# It would commit with the intent, before the effect is called: the call may still fail.
_PUBLISHED_EARLY = "an event beside an effect: publish it in the function that completes the effect"


class Identity(Struct, frozen=True):
    """Identity of an event for one consumer: partition key of the dedup record, and fingerprint.

    Attributes:
        item: with `Dedup.ITEM`, the primary key's values of the item that holds the record.
        former: the record of the deduplication before Once, if the handler declares `former=`.
    """

    pk: str
    fingerprint: str
    item: tuple[str, ...] = ()
    former: "FormerRecord | None" = None


class Transaction:
    """The writes of one event. Nothing is sent before the handler has returned.

    Values are str, int, Decimal, bool, None, bytes, list, dict or set: never float.

    Attributes:
        intent: the effect to call after this commit; the batch sets it.
        answer: the answer to a command, which its record keeps, in DynamoDB's JSON.
        owned: the intent whose outcome this transaction commits.
    """

    def __init__(
        self,
        event: CloudEvent,
        identity: Identity,
        settings: CommitSettings,
        *,
        read: Reader,
        claims: ClaimPlace | None = None,
        owned: Intent | None = None,
    ) -> None:
        self.event = event
        self.identity = identity
        self.owned = owned
        self._settings = settings
        self._read = read
        self._claims = claims
        # The end is from the operating system: a snapshot of SnapStart copies the state of Python's
        # generator, and after a lost answer the id alone shows whose commit the record is from. By
        # its beginning an operator finds the items of an event.
        self.commit_id = commit_prefix(identity.pk) + os.urandom(8).hex()
        self.refusal: Refusal | None = None
        self.drafts: list[Draft] = []
        self.request: tuple[Effect[Any, Any], bytes] | None = None
        self.intent: Intent | None = None
        self.answer: dict[str, Any] | None = None
        self._actions: dict[ItemKey, Action] = {}
        self._reads: dict[ItemKey, tuple[Action, dict[str, Any] | None]] = {}

    def put(
        self,
        table: Table[ItemT],
        item: ItemT | Item,
        values: Values = None,
        **terms: Unpack[Terms],
    ) -> None:
        """Write a whole item. It replaces an item with the same key."""
        whole = table.item_of(item)
        # A part of the key that is missing is None, which `item_key` refuses.
        key = {name: whole.get(name) for name in self._settings.tables[table.name].key}
        self._add(table, key, terms, values, kind="Put", item=whole)

    def update(
        self,
        table: Table[Any],
        key: Item,
        expression: str | None = None,
        values: Values = None,
        **terms: Unpack[UpdateTerms],
    ) -> None:
        """Change an item, or create it if it does not exist.

        The changes are data: `set=`, `if_not_exists=`, `append=`, `add=` and `remove=`. An update
        expression as text says what these cannot; `values` are those of the texts.

        Raises:
            InvalidWrite: the changes contradict one another, or DynamoDB would refuse them.
        """
        changes = {name: terms.pop(name) for name in CHANGES if name in terms}  # type: ignore[misc]
        if expression is not None and changes:
            raise InvalidWrite(
                f"an update of {table.name} has a text and {', '.join(changes)}=; give one of both"
            )
        if not isinstance(expression, str | None):
            raise InvalidWrite(
                f"an update of {table.name} has a {type(expression).__name__} in place of its "
                "text; give changes as set={'status': 'paid'}"
            )
        self._add(table, key, terms, values, kind="Update", update=expression, changes=changes)

    def delete(
        self, table: Table[Any], key: Item, values: Values = None, **terms: Unpack[Terms]
    ) -> None:
        """Remove an item."""
        self._add(table, key, terms, values, kind="Delete")

    def check(
        self, table: Table[Any], key: Item, values: Values = None, **terms: Unpack[Terms]
    ) -> None:
        """Let the commit depend on a condition on an item that it does not write."""
        self._add(table, key, terms, values, kind="ConditionCheck")

    def get(self, table: Table[ItemT], key: Item) -> ItemT | None:
        """Read an item consistently. The commit then succeeds only if the item has not changed.

        It is an object of the table's model; without one a dict, in which numbers are Decimal.
        Writes of this transaction are not visible: they are sent with the commit.

        Raises:
            RetryableError: the item does not fit the table's model.
        """
        settings = self._settings.tables[table.name]
        found = item_key(table, settings, key)
        # Once: a second read could return a later version, and one condition cannot hold both.
        if found not in self._reads:
            item, kind = self._read(settings, key), "ConditionCheck"
            check = Action(kind=kind, table=settings, key=dict(key), read=ItemVersion.of(item))
            self._reads[found] = (check, item)
        item = self._reads[found][1]
        return None if item is None else table.read(item)

    def publish(
        self,
        event_type: str,
        data: Any,
        *,
        subject: str | None = None,
        after: timedelta | None = None,
        at: datetime | None = None,
    ) -> None:
        """Publish an event once this transaction is committed, or later.

        A later event is published at its time or up to a minute after it, at most a year ahead; one
        whose time has passed, at once. The event's `time` is when it is due.

        Args:
            event_type: the CloudEvents `type`, one of the consumer's `publishes=`, or with `after`
                or `at` one of its `publishes_later=`.
            data: an object of a model, or anything that JSON can hold.
            subject: the CloudEvents `subject`, if the event has one.
            after: the time from the commit to the publishing.
            at: the time of the publishing, with a time zone.

        Raises:
            InvalidWrite: the consumer does not declare this type, the data has no JSON form or not
                the field of its message group, the time has no zone, or the transaction already
                performs an effect.
            TooLarge: with a claim-check bucket, the data is over its largest object; that of a
                later event, over what fits into the event itself.
        """
        if event_type not in self._settings.publishes:
            raise InvalidWrite(
                f"{event_type} is not among what this consumer publishes: add it to publishes= of "
                "the consumer's declaration in the CDK app"
            )
        wait = wait_of(event_type, after, at)
        if wait is not None and event_type not in self._settings.publishes_later:
            raise InvalidWrite(
                f"{event_type} is not among what this consumer publishes later: add it to "
                "publishes_later= of the consumer's declaration in the CDK app"
            )
        if self.request is not None:
            raise InvalidWrite(_PUBLISHED_EARLY)
        group_field = self._settings.groups.get(event_type)
        each = draft(event_type, data, subject, grouped_by=group_field)
        if wait is not None:
            each = msgspec.structs.replace(each, wait=wait)
        if self._claims is not None:
            each = self._claims.fitting(each, self.drafts, self.identity.pk)
        self.drafts.append(each)

    def perform(self, effect: Effect[RequestT, Any], request: RequestT) -> None:
        """Call an effect once this transaction is committed together with the intent to call it.

        Args:
            effect: one of the consumer's effects.
            request: the argument of the call, of the effect's model; every attempt sends the same
                bytes.

        Raises:
            InvalidWrite: there is already an effect or an event; the function completes an effect
                or answers a refusal; or the request is not of the effect's model.
        """
        if self.request or self.owned or self.refusal:
            raise InvalidWrite("one effect an event: publish an event, and let it cause the next")
        if self.drafts:
            raise InvalidWrite(_PUBLISHED_EARLY)
        if not isinstance(request, dict if is_typed_dict(effect.model) else effect.model):
            raise InvalidWrite(f"the effect {effect.name!r} takes a {effect.model.__name__}")
        # As bytes: each attempt sends the same ones, also after a deployment has changed the model.
        try:
            self.request = (effect, encode(model_of(effect.model).written(request)))
        except InvalidWrite as error:
            raise InvalidWrite(
                f"the request of {effect.name!r} breaks its model: {error}"
            ) from None

    @property
    def reads(self) -> Set[ItemKey]:
        return self._reads.keys()

    def item_read(self, key: ItemKey) -> Item:
        """Return an item as `get` read it; empty if it was not read, or is missing."""
        return (self._reads[key][1] if key in self._reads else None) or {}

    @property
    def writes(self) -> Set[ItemKey]:
        """The items that the commit changes."""
        return {key for key, a in self._actions.items() if a.kind != "ConditionCheck"}

    def refused(self, refusal: Refusal, *, keep_reads: bool) -> "Transaction":
        """Return an empty transaction for the rejection of a refusal.

        If the refusal depends on the items that this transaction read, keep its reads: its commit
        then fails if one of them has changed.
        """
        refused = Transaction(
            self.event,
            self.identity,
            self._settings,
            read=self._read,
            claims=self._claims,
            owned=self.owned,
        )
        refused.refusal = refusal
        if keep_reads:
            refused._reads = dict(self._reads)
        return refused

    def actions(self) -> dict[ItemKey, "Action"]:
        """Return the actions to commit: the writes, then the checks of items only read."""
        # DynamoDB takes one action an item: a write of an item that was read has its condition.
        checks = {key: check for key, (check, _) in self._reads.items()}
        writes = {
            key: msgspec.structs.replace(action, read=checks[key].read) if key in checks else action
            for key, action in self._actions.items()
        }
        return writes | {key: check for key, check in checks.items() if key not in writes}

    def rendered(
        self, more: dict[ItemKey, "Action"]
    ) -> tuple[dict[ItemKey, "Action"], list["TransactWriteItemTypeDef"]]:
        """Return the actions to commit, then `more` of them; and each as an entry of TransactItems.

        Raises:
            InvalidWrite: a value that DynamoDB has no type for.
        """
        actions = self.actions() | more
        return actions, [action.render(self.commit_id) for action in actions.values()]

    def _add(
        self,
        table: Table[Any],
        key: Item,
        terms: Terms,
        values: Values,
        *,
        kind: str,
        item: Item | None = None,
        update: str | None = "",
        changes: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        settings = self._settings.tables[table.name]
        found = item_key(table, settings, key)
        if found in self._actions:
            raise InvalidWrite(
                f"two actions on one item of {table.name}: DynamoDB takes one an item; merge them"
            )
        action = Action(kind=kind, table=settings, key=dict(key), item=item)
        add_terms(action, table.name, terms, values or {}, update=update, changes=changes)
        self._actions[found] = action
