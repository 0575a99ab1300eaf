"""Transaction: the reads and writes of a handler, which commit with the dedup record."""

import os
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

import msgspec
from msgspec import Struct

from once.effects.declaration import Effect
from once.effects.intent import Intent
from once.errors import InvalidWrite, Refusal
from once.events.cloud_event import CloudEvent
from once.events.outgoing import Draft, draft
from once.handlers.actions import Action, Item, ItemKey, ItemVersion, Table, Terms
from once.settings import TableSettings

if TYPE_CHECKING:
    from once.events.claimed_draft import ClaimPlace
    from once.handlers.former_records import FormerRecord

_PUBLISHED_EARLY = "an event beside an effect: publish it in the function that completes the effect"

Values = Mapping[str, Any] | None
Reader = Callable[[TableSettings, Item], dict[str, Any] | None]


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


class _Kind(TypedDict, total=False):
    kind: Required[str]
    item: Item
    update: str
    values: Mapping[str, Any]


class Transaction:
    """The writes of one event. Nothing is sent before the handler has returned.

    Values are str, int, Decimal, bool, None, bytes, list, dict or set: never float.

    Attributes:
        intent: the effect to call after this commit, as `EffectExecutor.intend` returns it.
        owned: the intent whose outcome this transaction commits.
    """

    def __init__(
        self,
        event: CloudEvent,
        identity: Identity,
        *,
        tables: Mapping[str, TableSettings],
        publishes: Collection[str],
        read: Reader,
        claims: "ClaimPlace | None" = None,
        groups: Mapping[str, str] = MappingProxyType({}),
        owned: Intent | None = None,
    ) -> None:
        self.event = event
        self.identity = identity
        self.commit_id = os.urandom(16).hex()
        self.refusal: Refusal | None = None
        self.drafts: list[Draft] = []
        self.request: tuple[Effect, bytes] | None = None
        self.intent: Intent | None = None
        self.owned = owned
        self._tables = tables
        self._publishes = publishes
        self._read = read
        self._claims = claims
        self._groups = groups
        self._actions: dict[ItemKey, Action] = {}
        self._reads: dict[ItemKey, tuple[Action, dict[str, Any] | None]] = {}

    def put(self, table: Table, item: Item, values: Values = None, **terms: Unpack[Terms]) -> None:
        """Write a whole item. It replaces an item with the same key."""
        key = {name: item.get(name) for name in self._tables[table.name].key}
        self._add(table, key, terms, kind="Put", item=dict(item), values=values or {})

    def update(
        self,
        table: Table,
        key: Item,
        expression: str,
        values: Values = None,
        **terms: Unpack[Terms],
    ) -> None:
        """Change an item by an update expression, or create it if it does not exist.

        `values` are those of both the expression and the condition.
        """
        self._add(table, key, terms, kind="Update", update=expression, values=values or {})

    def delete(
        self, table: Table, key: Item, values: Values = None, **terms: Unpack[Terms]
    ) -> None:
        """Remove an item."""
        self._add(table, key, terms, kind="Delete", values=values or {})

    def check(self, table: Table, key: Item, values: Values = None, **terms: Unpack[Terms]) -> None:
        """Let the commit depend on a condition on an item that it does not write."""
        self._add(table, key, terms, kind="ConditionCheck", values=values or {})

    def get(self, table: Table, key: Item) -> dict[str, Any] | None:
        """Read an item consistently. The commit then succeeds only if the item has not changed.

        Numbers are returned as Decimal. Writes of this transaction are not visible: they are sent
        with the commit.
        """
        settings = self._tables[table.name]
        found = _item_key(table, settings, key)
        if found not in self._reads:
            item, kind = self._read(settings, key), "ConditionCheck"
            check = Action(kind=kind, table=settings, key=dict(key), read=ItemVersion.of(item))
            self._reads[found] = (check, item)
        item = self._reads[found][1]
        return None if item is None else dict(item)

    def publish(self, event_type: str, data: Any, *, subject: str | None = None) -> None:
        """Publish an event once this transaction is committed.

        Args:
            event_type: the CloudEvents `type`, one of the consumer's `publishes=`.
            data: a msgspec.Struct, or anything that JSON can hold.
            subject: the CloudEvents `subject`, if the event has one.

        Raises:
            InvalidWrite: the consumer does not declare this type, the data has no JSON form or not
                the field of its message group, or the transaction already performs an effect.
            TooLarge: with a claim-check bucket, the data is over its largest object.
        """
        if event_type not in self._publishes:
            raise InvalidWrite(
                f"{event_type} is not among what this consumer publishes: add it to publishes= of "
                "the consumer's declaration in the CDK app"
            )
        if self.request is not None:
            raise InvalidWrite(_PUBLISHED_EARLY)
        each = draft(event_type, data, subject, grouped_by=self._groups.get(event_type))
        if self._claims is not None:
            each = self._claims.fitting(each, self.drafts, self.identity.pk)
        self.drafts.append(each)

    def perform(self, effect: Effect, request: Struct) -> None:
        """Call an effect once this transaction is committed together with the intent to call it.

        Args:
            effect: one of the consumer's effects.
            request: the argument of the call; every attempt sends the same bytes.

        Raises:
            InvalidWrite: there is already an effect or an event; the function completes an effect
                or answers a refusal; or the request is not of the effect's model.
        """
        if self.request or self.owned or self.refusal:
            raise InvalidWrite("one effect an event: publish an event, and let it cause the next")
        if self.drafts:
            raise InvalidWrite(_PUBLISHED_EARLY)
        if not isinstance(request, effect.model):
            raise InvalidWrite(f"the effect {effect.name!r} takes a {effect.model.__name__}")
        self.request = (effect, msgspec.json.encode(request))

    @property
    def reads(self) -> Set[ItemKey]:
        """The items that the handler read."""
        return self._reads.keys()

    def item_read(self, key: ItemKey) -> Item:
        """Return an item as `get` read it; empty if it was not read, or is missing."""
        return (self._reads[key][1] if key in self._reads else None) or {}

    @property
    def writes(self) -> Set[ItemKey]:
        """The items that the commit changes."""
        return {key for key, a in self._actions.items() if a.kind != "ConditionCheck"}

    def refused(self, refusal: Refusal, *, keep_reads: bool) -> "Transaction":
        """Return an empty transaction for the answer to a refusal.

        Args:
            refusal: why the event is refused.
            keep_reads: whether the refusal depends on the items that this transaction read. Its
                commit then fails if one of them has changed.
        """
        answer = Transaction(
            self.event,
            self.identity,
            tables=self._tables,
            publishes=self._publishes,
            read=self._read,
            claims=self._claims,
            groups=self._groups,
            owned=self.owned,
        )
        answer.refusal = refusal
        if keep_reads:
            answer._reads = dict(self._reads)
        return answer

    def actions(self) -> dict[ItemKey, Action]:
        """Return the actions to commit: the writes, then the checks of items only read."""
        checks = {key: check for key, (check, _) in self._reads.items()}
        writes = {
            key: replace(action, read=checks[key].read) if key in checks else action
            for key, action in self._actions.items()
        }
        return writes | {key: check for key, check in checks.items() if key not in writes}

    def _add(self, table: Table, key: Item, terms: Terms, **action: Unpack[_Kind]) -> None:
        settings = self._tables[table.name]
        found = _item_key(table, settings, key)
        if "otherwise" in terms and not terms.get("condition"):
            raise InvalidWrite(f"a write to {table.name} has an otherwise without a condition")
        if found in self._actions:
            raise InvalidWrite(
                f"two actions on one item of {table.name}: DynamoDB takes one an item; merge them"
            )
        self._actions[found] = Action(table=settings, key=dict(key), **action, **terms)


def _item_key(table: Table, settings: TableSettings, key: Item) -> ItemKey:
    if key.keys() != set(settings.key) or not all(map(_is_key_value, key.values())):
        names = ", ".join(settings.key)
        raise InvalidWrite(
            f"the key of {table.name} is {names}: text, a number or bytes, not empty"
        )
    return table.name, tuple(sorted(key.items()))


def _is_key_value(value: Any) -> bool:
    return isinstance(value, str | bytes | int | Decimal) and value not in ("", b"")
