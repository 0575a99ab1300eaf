"""JSON values and texts that parsers often handle wrongly, and small changes to a JSON value."""

from random import Random
from typing import Any

TEXTS = (
    *("", " ", "\u00a0", "a", "b", "1", "null", "id", "source", "str:1", "int:1"),
    *("#", "%", "%23", "%25", "a#b", "%2", "#str:", "event"),
    *("\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", "\uac00", "\u1100\u1161", "\u0338"),
    *("\U0001f600", "\ufeff", "\ufffe", "\uffff", "\u2028"),
    *("\x00", "\x1f", "\x7f", '"', "\\", "\\u0061", "\\ud800", "\ufb01", "[", "{", "<!--"),
)
"""Only texts that UTF-8 can encode: queues, tables and streams hold no others."""

NUMBERS = (
    *("0", "-0", "0.0", "-0.0", "1", "1.0", "1e0", "10e-1", "100", "1e2", "1E+2", "1.50"),
    *("0.1", "0.1000000000000000055", "5e-324", "1e308", "1e400", "-1e400", "1e-400", "0e5"),
    *("9007199254740991", "9007199254740992", "9007199254740993.0", "-9007199254740992"),
    *("1e99999999999999999999", "0e99999999999999999999", "9" * 4301, "0." + "1" * 4301),
    *("NaN", "Infinity", "-Infinity", "01", "+1", "1.", ".5", "0x10", "1_000", "\uff11"),
)
SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, -1, 2**53 - 1, 1.0, 0.5, -0.0, 1e22, 5e-324)
_SAME_NAMES = (("\u00e9", "e\u0301"), ("\u212b", "\u00c5"), ("\uac00", "\u1100\u1161"))
"""Pairs of names that NFC normalization makes equal."""
_MAX_LEVELS = 3


def text(rng: Random) -> str:
    """Return a short text; one in a hundred is longer than a key may be."""
    if rng.random() < 0.01:
        return rng.choice(("x", "\u00e9", "#", "e\u0301")) * rng.randint(100, 3000)
    return "".join(rng.choices(TEXTS, k=rng.choice((1, 1, 2, 3))))


def value(rng: Random, level: int = 0) -> Any:
    """Return a value that strict JSON can express."""
    pick = rng.random()
    if level == _MAX_LEVELS or pick < 0.4:
        return rng.choice(SCALARS)
    if pick < 0.7:
        return text(rng)
    if pick < 0.85:
        return [value(rng, level + 1) for _ in range(rng.randint(0, 3))]
    names = [text(rng) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.1:
        names += rng.choice(_SAME_NAMES)
    return {name: value(rng, level + 1) for name in names}


def changed(rng: Random, tree: Any) -> Any:
    """Return a copy of a JSON value with one change, which may keep its meaning (1 and 1.0)."""
    match tree:
        case dict() if tree and rng.random() < 0.9:
            return _changed_object(rng, tree)
        case list() if tree and rng.random() < 0.8:
            place = rng.randrange(len(tree))
            return [changed(rng, m) if n == place else m for n, m in enumerate(tree)]
        case str() if rng.random() < 0.5:
            return tree + text(rng)
        case bool() | int() | float() if rng.random() < 0.5:
            return rng.choice((str(tree), float(tree), bool(tree), [tree], -tree))
    return value(rng, 1)


def _changed_object(rng: Random, tree: dict[str, Any]) -> dict[str, Any]:
    name = rng.choice(list(tree))
    others = {key: member for key, member in tree.items() if key != name}
    pick = rng.random()
    if pick < 0.15:
        return others
    if pick < 0.3:
        return {**tree, text(rng): value(rng, 1)}
    if pick < 0.4:
        return {**others, name + text(rng): tree[name]}
    return {**tree, name: changed(rng, tree[name])}
