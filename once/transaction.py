"""Transaction: what a handler fills with reads, writes, events to publish, and one effect.

Nothing is sent before the handler has returned. All of it then commits together with the event's
dedup record, in one request. Every item that is written gets the id of its commit, so that the
commit of a transaction which has read the item can be on condition that it has not changed.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from enum import Enum
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar, Unpack, cast

import msgspec
from boto3.dynamodb.types import Binary, TypeDeserializer
from botocore.exceptions import ClientError
from msgspec import Struct, field
from msgspec.json import encode

from once.dynamodb_rules import Unfit, check_expressions, check_value, serialize
from once.effects.declaration import Effect, RequestT
from once.effects.ledger import Intent
from once.errors import (
    THROTTLING,
    InvalidWrite,
    NoKey,
    Refusal,
    RequestRefused,
    RetryableError,
    Throttled,
)
from once.events.cloud_event import MODEL_FAULTS, CloudEvent, fault_text
from once.events.models import is_typed_dict, model_of
from once.events.outgoing import ClaimPlace, Draft, draft
from once.names import COMMIT_ATTRIBUTE, Limits
from once.settings import CommitSettings, TableSettings

if TYPE_CHECKING:
    from boto3.dynamodb.conditions import ConditionBase
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

Item = Mapping[str, Any]
Values = Mapping[str, Any] | None
ItemKey = tuple[str, tuple[tuple[str, Any], ...]]
"""A table's logical name, and the attributes of an item's primary key."""

Reader = Callable[[TableSettings, Item], dict[str, Any] | None]
"""Reads an item by its primary key; see `read_item`."""

_DESERIALIZER = TypeDeserializer()
_KEY_TYPES = (str, bytes, int, Decimal)
_KEY_BYTES = (Limits.PARTITION_KEY_BYTES, Limits.SORT_KEY_BYTES)
_MOST_BYTES_A_CHARACTER = 4  # in UTF-8
_PATH_PART = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")
_SET_CLAUSE = re.compile(r"(?<![\w#:.])SET\b", re.IGNORECASE)
_COMMIT_NAME, _COMMIT_VALUE = "#once_commit", ":once_commit"
_READ_VALUE, _KEY_NAME = ":once_read", "#once_key"

_PUBLISHED_EARLY = "an event beside an effect: publish it in the function that completes the effect"


ItemT = TypeVar("ItemT")


class Table(Struct, Generic[ItemT], frozen=True):
    """A business table by its logical name. `Consumer.table` makes one.

    Attributes:
        name: the name in the consumer's declaration.
        model: the class of its items; None if they are dicts.
    """

    name: str
    model: type[ItemT] | None = None

    def item_of(self, given: "ItemT | Item") -> dict[str, Any]:
        """Return an object of the model as an item. A mapping is taken as it is.

        Raises:
            InvalidWrite: it is no object of the model, and no mapping.
        """
        if isinstance(given, Mapping) and not is_typed_dict(self.model):
            return dict(given)
        kind = dict if is_typed_dict(self.model) else self.model
        if kind is None or not isinstance(given, kind):
            wanted = "a dict" if self.model is None else f"{self.model.__name__} or a dict"
            raise InvalidWrite(f"{self.name} takes {wanted}, not {type(given).__name__}")
        try:
            return model_of(self.model).item_of(given)
        except InvalidWrite as error:
            raise InvalidWrite(f"a write to {self.name}: {error}") from None

    def read(self, item: Item) -> ItemT:
        """Return an item as an object of the model, or as a dict without one.

        Raises:
            RetryableError: the item does not fit the model.
        """
        if self.model is None:
            return cast(ItemT, dict(item))
        fields = {name: value for name, value in item.items() if name != COMMIT_ATTRIBUTE}
        try:
            return cast(ItemT, model_of(self.model).read_item(_plain(fields)))
        except MODEL_FAULTS as error:
            # Perhaps a newer version of the function wrote it: another attempt may succeed.
            raise RetryableError(
                f"an item of {self.name} does not fit {self.model.__name__}: {fault_text(error)}"
            ) from None


Path = str | tuple[str | int, ...]
"""An attribute. In a text, dots separate the names of nested maps, and `[0]` is a member of a list.
In a tuple, each text is one name, whatever its characters, and each number a member."""
ByPath = Mapping[str, Any] | Mapping[Path, Any]


class Presence(Enum):
    """A condition on the item as a whole."""

    ABSENT = "attribute_not_exists"
    PRESENT = "attribute_exists"


absent = Presence.ABSENT
"""The condition that there is no item with this key."""
present = Presence.PRESENT
"""The condition that there is an item with this key."""


class Changes(TypedDict, total=False):
    """The changes of one update, by attribute.

    `set` replaces values, `if_not_exists` sets those that are missing, `append` adds members to
    lists, `add` adds to numbers (a missing one is 0) and members to sets, `remove` deletes
    attributes.
    """

    set: "ByPath"
    if_not_exists: "ByPath"
    append: "ByPath"
    add: "ByPath"
    remove: tuple[Path, ...]


CHANGES = {
    "set": ("SET", "{name} = {value}"),
    "if_not_exists": ("SET", "{name} = if_not_exists({name}, {value})"),
    "append": ("SET", "{name} = list_append(if_not_exists({name}, {empty}), {value})"),
    "add": ("ADD", "{name} {value}"),
    "remove": ("REMOVE", "{name}"),
}
"""Clause and form of each change in an update expression."""


class Terms(TypedDict, total=False):
    """Optional terms of a write: a condition, the names of its text, and a refusal.

    The condition is `absent`, `present`, one of `boto3.dynamodb.conditions`, or a text. `otherwise`
    is the business refusal to raise if the condition fails. Without it, a failed condition makes
    the message retry later.
    """

    condition: "str | Presence | ConditionBase"
    names: Mapping[str, str]
    otherwise: Refusal


class UpdateTerms(Terms, Changes, total=False):
    """The changes of an update, and its terms."""


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
        self.commit_id = os.urandom(16).hex()
        self.refusal: Refusal | None = None
        self.drafts: list[Draft] = []
        self.request: tuple[Effect[Any, Any], bytes] | None = None
        self.intent: Intent | None = None
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
        found = _item_key(table, settings, key)
        if found not in self._reads:
            item, kind = self._read(settings, key), "ConditionCheck"
            check = Action(kind=kind, table=settings, key=dict(key), read=ItemVersion.of(item))
            self._reads[found] = (check, item)
        item = self._reads[found][1]
        return None if item is None else table.read(item)

    def publish(self, event_type: str, data: Any, *, subject: str | None = None) -> None:
        """Publish an event once this transaction is committed.

        Args:
            event_type: the CloudEvents `type`, one of the consumer's `publishes=`.
            data: an object of a model, or anything that JSON can hold.
            subject: the CloudEvents `subject`, if the event has one.

        Raises:
            InvalidWrite: the consumer does not declare this type, the data has no JSON form or not
                the field of its message group, or the transaction already performs an effect.
            TooLarge: with a claim-check bucket, the data is over its largest object.
        """
        if event_type not in self._settings.publishes:
            raise InvalidWrite(
                f"{event_type} is not among what this consumer publishes: add it to publishes= of "
                "the consumer's declaration in the CDK app"
            )
        if self.request is not None:
            raise InvalidWrite(_PUBLISHED_EARLY)
        group_field = self._settings.groups.get(event_type)
        each = draft(event_type, data, subject, grouped_by=group_field)
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
        try:
            self.request = (effect, encode(model_of(effect.model).written(request)))
        except InvalidWrite as error:
            raise InvalidWrite(
                f"the request of {effect.name!r} breaks its model: {error}"
            ) from None

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
        found = _item_key(table, settings, key)
        if "otherwise" in terms and not terms.get("condition"):
            raise InvalidWrite(f"a write to {table.name} has an otherwise without a condition")
        if found in self._actions:
            raise InvalidWrite(
                f"two actions on one item of {table.name}: DynamoDB takes one an item; merge them"
            )
        names, values = terms.get("names") or {}, values or {}
        condition = terms.get("condition") or ""
        if update is None or not isinstance(condition, str):
            built = Expressions(table.name, settings.key, dict(names), dict(values))
            update = built.update(changes) if update is None else update
            condition = built.condition(condition)
            names, values = built.names, built.values
        try:
            check_expressions(update, condition, names, values)
        except Unfit as fault:
            raise InvalidWrite(f"a write to {table.name}: {fault}") from None
        self._actions[found] = Action(
            kind=kind,
            table=settings,
            key=dict(key),
            item=item,
            update=update,
            condition=condition,
            names=names,
            values=values,
            otherwise=terms.get("otherwise"),
        )


def _item_key(table: Table[Any], settings: TableSettings, key: Item) -> ItemKey:
    is_complete = len(key) == len(settings.key)
    for name, limit in zip(settings.key, _KEY_BYTES, strict=False):
        value = key.get(name)
        if type(value) is str and 0 < len(value) <= limit // _MOST_BYTES_A_CHARACTER:
            continue
        if isinstance(value, bool) or not isinstance(value, _KEY_TYPES) or value in ("", b""):
            is_complete = False
        content = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        if isinstance(content, bytes) and len(content) > limit:
            raise InvalidWrite(
                f"the key of {table.name} has {len(content)} bytes in {name}, and DynamoDB takes "
                f"{limit}: give a shorter one, such as a hash of the value"
            )
    if not is_complete:
        names = ", ".join(settings.key)
        raise InvalidWrite(
            f"the key of {table.name} is {names}: text, a number or bytes, not empty"
        )
    return table.name, tuple(sorted(key.items()))


class ItemVersion(Struct, frozen=True):
    """The version of an item that `Transaction.get` read.

    Attributes:
        exists: whether there was an item.
        commit: id of the last commit that wrote it; None if this library never did.
    """

    exists: bool
    commit: str | None

    @classmethod
    def of(cls, item: Item | None) -> "ItemVersion":
        """Return the version of an item that was read; pass None for a missing item."""
        return cls(item is not None, (item or {}).get(COMMIT_ATTRIBUTE))


class Action(Struct, kw_only=True):
    """One action on one item. `kind` is DynamoDB's name: Put, Update, Delete or ConditionCheck."""

    kind: str
    table: TableSettings
    key: Item
    item: Item | None = None
    update: str = ""
    condition: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    otherwise: Refusal | None = None
    read: ItemVersion | None = None

    def render(self, commit: str) -> "TransactWriteItemTypeDef":
        """Return the action as an entry of TransactItems.

        The id of the commit is stored on the item, so that a reader can detect a change.

        Raises:
            InvalidWrite: a value that DynamoDB has no type for.
        """
        names, values = dict(self.names), dict(self.values)
        write = f"a write to {self.table.name}"
        request: dict[str, Any] = {"TableName": self.table.name}
        if self.kind == "Put":
            request["Item"] = serialize({**(self.item or {}), COMMIT_ATTRIBUTE: commit}, write)
        else:
            request["Key"] = serialize(self.key, write)
        if self.kind == "Update":
            request["UpdateExpression"] = with_set(self.update, _COMMIT_NAME, _COMMIT_VALUE)
            names[_COMMIT_NAME], values[_COMMIT_VALUE] = COMMIT_ATTRIBUTE, commit
        condition = unchanged = self._unchanged(names, values)
        if self.condition:
            condition = f"({self.condition}) AND {unchanged}" if unchanged else self.condition
        if condition:
            request["ConditionExpression"] = condition
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if names:
            request["ExpressionAttributeNames"] = names
        if values:
            request["ExpressionAttributeValues"] = serialize(values, write)
        return {self.kind: request}  # type: ignore[misc]

    def _unchanged(self, names: dict[str, str], values: dict[str, Any]) -> str:
        """Return the condition that the item has not changed since it was read."""
        if self.read is None:
            return ""
        if self.read.commit is not None:
            names[_COMMIT_NAME], values[_READ_VALUE] = COMMIT_ATTRIBUTE, self.read.commit
            return f"{_COMMIT_NAME} = {_READ_VALUE}"
        names[_KEY_NAME] = self.table.key[0]
        if not self.read.exists:
            return f"attribute_not_exists({_KEY_NAME})"
        names[_COMMIT_NAME] = COMMIT_ATTRIBUTE
        return f"attribute_exists({_KEY_NAME}) AND attribute_not_exists({_COMMIT_NAME})"


# Changes and conditions as data. Every name and value gets a placeholder, so that DynamoDB's
# reserved words, and characters that have a meaning in an expression, are no concern of a handler.


class Expressions(Struct):
    """The expressions of one write, with the names and values that they refer to.

    Attributes:
        table: the table's logical name, for errors.
        key: the attributes of the table's primary key.
        names: the names by placeholder, those of a handler's own text among them.
        values: the values by placeholder, likewise.
    """

    table: str
    key: tuple[str, ...]
    names: dict[str, str]
    values: dict[str, Any]

    def update(self, changes: Mapping[str, Any]) -> str:
        """Return an update expression.

        Raises:
            InvalidWrite: there is no change, two changes of one attribute or of a part of it, a
                change of the key, or a value that the change does not take.
        """
        seen: dict[tuple[str | int, ...], str] = {}
        clauses: dict[str, list[str]] = {"SET": [], "ADD": [], "REMOVE": []}
        for option, given in changes.items():
            clause, form = CHANGES[option]
            for path, value in self._pairs(option, given):
                steps = self._steps(path)
                self._check(seen, steps, f"{option}= of {path!r}")
                seen[steps] = f"{option}= of {path!r}"
                name = self._name(steps)
                if option == "remove":
                    clauses[clause].append(name)
                    continue
                self._check_value(option, path, value)
                empty = self._value([]) if option == "append" else ""
                clauses[clause].append(
                    form.format(name=name, value=self._value(value), empty=empty)
                )
        if not seen:
            raise self._error("the update changes nothing; give set=, add= or another change")
        return " ".join(f"{clause} {', '.join(each)}" for clause, each in clauses.items() if each)

    def condition(self, given: Any) -> str:
        """Return a condition expression; a text is one already.

        Raises:
            InvalidWrite: it is no condition, or uses a placeholder of the handler's text.
        """
        if isinstance(given, str):
            return given
        if isinstance(given, Presence):
            return f"{given.value}({self._name((self.key[0],))})"
        # Loaded late: each module costs time at a cold start.
        from boto3.dynamodb.conditions import ConditionBase, ConditionExpressionBuilder

        if not isinstance(given, ConditionBase):
            raise self._error(
                f"its condition is of the type {type(given).__name__}; give absent, present, a "
                "condition of boto3.dynamodb.conditions such as Attr('available').gte(1), or a text"
            )
        built = ConditionExpressionBuilder().build_expression(given)
        names, values = built.attribute_name_placeholders, built.attribute_value_placeholders
        if taken := sorted((names.keys() & self.names) | (values.keys() & self.values)):
            raise self._error(f"{taken[0]} is a placeholder of boto3's condition too; rename it")
        self.names |= names
        self.values |= values
        return str(built.condition_expression)

    def _pairs(self, option: str, given: Any) -> Iterable[tuple[Path, Any]]:
        if option == "remove" and isinstance(given, tuple | list):
            return [(path, None) for path in given]
        if option != "remove" and isinstance(given, Mapping):
            return given.items()
        form = "a tuple, as ('draft',)" if option == "remove" else "a dict, as {'status': 'paid'}"
        raise self._error(f"{option}= is of the type {type(given).__name__}; give {form}")

    def _steps(self, path: Path) -> tuple[str | int, ...]:
        """Return the names and the members of lists on the way to an attribute."""
        are_steps = isinstance(path, tuple) and all(isinstance(step, str | int) for step in path)
        if are_steps and path and isinstance(path[0], str):
            return cast(tuple[str | int, ...], path)
        parts = (
            [_PATH_PART.fullmatch(part) for part in path.split(".")]
            if isinstance(path, str)
            else []
        )
        if not parts or None in parts:
            shown = repr(path) if isinstance(path, str) else f"a {type(path).__name__}"
            raise self._error(
                f"{shown} names no attribute; give a name, with dots between nested ones, or a "
                "tuple of names that may have dots themselves"
            )
        steps: list[str | int] = []
        for part in filter(None, parts):
            steps += [part[1], *map(int, re.findall(r"\d+", part[2]))]
        return tuple(steps)

    def _check(
        self, seen: Mapping[tuple[str | int, ...], str], steps: tuple[str | int, ...], change: str
    ) -> None:
        if steps[0] in self.key:
            raise self._error(f"{change} changes the item's key, which DynamoDB refuses")
        for other, earlier in seen.items():
            if other[: len(steps)] == steps[: len(other)]:
                raise self._error(f"{earlier} and {change} overlap; merge the two")

    def _check_value(self, option: str, path: Path, value: Any) -> None:
        kind = type(value).__name__
        try:
            held = check_value(value)
        except Unfit as fault:
            raise self._error(f"{option}= of {path!r}: {fault}") from None
        if option == "add" and held not in {"N", "NS", "SS", "BS"}:
            raise self._error(
                f"add= of {path!r} is of the type {kind}; give a number or a set with members, or "
                "replace the value with set="
            )
        if option == "append" and not isinstance(value, list | tuple):
            raise self._error(f"append= of {path!r} is of the type {kind}; give a list of members")

    def _name(self, steps: Sequence[str | int]) -> str:
        text = ""
        for step in steps:
            if isinstance(step, int):
                text += f"[{step}]"
                continue
            known = (placeholder for placeholder, name in self.names.items() if name == step)
            placeholder = next(known, None) or _free("#once_", self.names)
            self.names[placeholder] = step
            text += f".{placeholder}" if text else placeholder
        return text

    def _value(self, value: Any) -> str:
        placeholder = _free(":once_", self.values)
        self.values[placeholder] = value
        return placeholder

    def _error(self, text: str) -> InvalidWrite:
        return InvalidWrite(f"a write to {self.table}: {text}")


def _free(prefix: str, taken: Collection[str]) -> str:
    numbered = (f"{prefix}{number}" for number in count(len(taken)))
    return next(each for each in numbered if each not in taken)


def _plain(value: Any) -> Any:
    """Return what boto3's deserializer made, with whole numbers as int, and bytes as bytes."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | set):
        return type(value)(map(_plain, value))
    if isinstance(value, Binary):
        return bytes(value)  # type: ignore[call-overload]
    whole = isinstance(value, Decimal) and value == value.to_integral_value()
    return int(value) if whole else value


def with_set(update: str, name: str, value: str) -> str:
    """Return an update expression that also assigns a value, in its one SET clause."""
    clause = f"SET {name} = {value}"
    if _SET_CLAUSE.search(update):
        return _SET_CLAUSE.sub(f"{clause},", update, count=1)
    return f"{clause} {update}".strip()


def read_item(client: "DynamoDBClient", table: TableSettings, key: Item) -> dict[str, Any] | None:
    """Return an item of a business table, read consistently; None if it does not exist.

    Raises:
        RequestRefused: the table is missing, or throttled (`Throttled`).
        botocore.exceptions.ClientError, BotoCoreError: DynamoDB did not return the item.
    """
    try:
        answer = client.get_item(TableName=table.name, Key=serialize(key), ConsistentRead=True)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in THROTTLING:
            raise Throttled(f"DynamoDB throttled a read of the table {table.name}") from None
        if code != "ResourceNotFoundException":
            raise
        # A deployment that is under way, or incomplete: no message causes it.
        raise RequestRefused(f"DynamoDB does not find the table {table.name}") from None
    if "Item" not in answer:
        return None
    return {name: _DESERIALIZER.deserialize(v) for name, v in answer["Item"].items()}


# Former records: the deduplication that a consumer used before Once. Each commit also writes the
# former record of its event, on condition that there is none. The former function and Once then
# compete for one item, so that only one of them changes state (docs/migrating.md).


class FormerRecord(Struct, frozen=True):
    """The place of one event's former record: its table, and the values of its primary key."""

    records: "FormerRecords"
    key: tuple[str, ...]


class FormerRecords(Struct, frozen=True):
    """Records of one event type in a table that the former function writes as well.

    Attributes:
        table: the table, declared in `tables=` of the consumer as any other.
        key: returns the values of the record's primary key for an event, partition key first; None
            for an event that the former function did not deduplicate.
        status: attribute with the state of a record.
        done: the status of a record whose event has been processed. Any other one is unfinished.
        lease_until: attribute with the time until which the former function may still be running,
            in milliseconds since the epoch.
        expires_at: attribute with the record's expiry, in seconds since the epoch; None if the
            former records have none.
    """

    table: Table[Any]
    key: Callable[[CloudEvent], tuple[str, ...] | None]
    status: str = "status"
    done: str = "done"
    lease_until: str = "lease_until"
    expires_at: str | None = None

    @classmethod
    def powertools(
        cls,
        table: Table[Any],
        *,
        prefix: str,
        value: Callable[[CloudEvent], Any],
        hash_function: str = "md5",
        partition: str | None = None,
    ) -> Self:
        """Return the records of the idempotency utility of Powertools for AWS Lambda.

        Args:
            table: the table of its DynamoDBPersistenceLayer, with the default attribute names.
            prefix: the part of a key before `#`: `key_prefix`, or else the function's name, a dot,
                and module and name of the decorated Python function.
            value: returns for an event what `event_key_jmespath` selected; None for an event
                without a key, which Powertools did not deduplicate.
            hash_function: the one of its IdempotencyConfig.
            partition: `static_pk_value` of a layer with a sort key, by default `idempotency#` and
                the function's name; None for a layer without one.
        """

        def key(event: CloudEvent) -> tuple[str, ...] | None:
            selected = value(event)
            if selected is None:
                return None
            try:
                text = json.dumps(selected, sort_keys=True)
            except TypeError as error:
                raise NoKey(f"the former key cannot be computed: {error}") from None
            digest = hashlib.new(hash_function, text.encode(), usedforsecurity=False)
            record = f"{prefix}#{digest.hexdigest()}"
            return (record,) if partition is None else (partition, record)

        return cls(table, key, "status", "COMPLETED", "in_progress_expiration", "expiration")

    def record_of(self, event: CloudEvent, names: tuple[str, ...]) -> FormerRecord | None:
        """Return the place of an event's former record; None if it can have none.

        Raises:
            InvalidWrite: the key function does not return a text for each of these `names`, the
                attributes of the table's primary key.
        """
        key = self.key(event)
        if key is None:
            return None
        if len(key) != len(names) or not all(isinstance(v, str) and v for v in key):
            raise InvalidWrite(
                f"the key of the former record is to be a text for each of {', '.join(names)}: "
                "correct the key function of former="
            )
        return FormerRecord(self, key)
