"""Settings reference: a table of the members of `ONCE_SETTINGS`, for each kind of function."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields

from docs.tools.marked_block import write
from once.settings import (
    CommandSettings,
    CommitSettings,
    Dedup,
    Environment,
    RelaySettings,
    Settings,
    SweepSettings,
    TableSettings,
    Text,
    bare_type,
    meaning,
)
from once.webhooks.endpoint import WebhookSettings

PAGE = Path(__file__).parents[1] / "reference" / "settings.md"
BLOCK = "settings"
KINDS: dict[str, type[Environment]] = {
    "Consumers": Settings,
    "Commands": CommandSettings,
    "Webhook ingress": WebhookSettings,
    "Outbox relay": RelaySettings,
    "Unrouted events": SweepSettings,
}
_TYPES: dict[Any, str] = {
    str: "text",
    Text | None: "text or null",
    bool: "true or false",
    tuple[Text, ...]: "list of texts",
    Mapping[Text, Text]: "object of texts",
    Mapping[Text, tuple[Text, ...]]: "object of lists",
    Mapping[Text, TableSettings]: "object of tables",
    Dedup: "`record` or `item`",
}


def reference() -> str:
    """Return a section for each kind of function."""
    return "\n\n".join(part for name, kind in KINDS.items() for part in (f"## {name}", table(kind)))


def table(kind: type[Environment]) -> str:
    """Return the settings of a function, those without a default first."""
    rows = sorted(_rows(kind), key=lambda row: "required" not in row)
    return "\n".join(["| setting | type | default | meaning |", "|---|---|---|---|", *rows])


def passed_settings(kind: type) -> list[str]:
    """Return a line for each property of a class that is given to the function as a setting."""
    passed = [each for each in dataclasses.fields(kind) if "setting" in each.metadata]
    settings = {each.name: each for each in fields(Settings)}
    return [
        f"- `{each.name}`, {_type(settings[each.name])}, {_shown(settings[each.name].default)} by "
        f"default: {meaning(settings[each.name])}."
        for each in passed
    ]


def _rows(kind: type[Environment]) -> Iterator[str]:
    is_consumer = kind is Settings or not issubclass(kind, CommitSettings)
    shared = set() if is_consumer else {each.name for each in fields(CommitSettings)}
    for each in fields(kind):
        if each.name in shared and not each.required:
            continue  # as for consumers
        made = each.default_factory is not NODEFAULT
        default = (
            "required"
            if each.required
            else _shown(each.default_factory() if made else each.default)
        )
        yield f"| `{each.name}` | {_type(each)} | {default} | {meaning(each)} |"


def _type(setting: FieldInfo) -> str:
    kind = bare_type(setting)
    if kind is not int:
        return _TYPES.get(kind, "object")
    largest = [each.le for each in setting.type.__metadata__ if getattr(each, "le", None)]
    return f"whole number, 1 to {largest[0]}" if largest else "whole number"


def _shown(value: object) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"


if __name__ == "__main__":
    write(PAGE, BLOCK, reference())
