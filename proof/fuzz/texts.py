"""JSON values and texts that parsers often handle wrongly: generated, changed, spelled, damaged.

Every generator here and in the other modules takes a `Random` of Hypothesis. The smallest choice is
the plainest one, so that a failing input shrinks to a plain one.
"""

import json
import re
import unicodedata
from random import Random
from typing import Any

TEXTS = (
    *("", "a", "b", "1", " ", "\u00a0", "null", "id", "source", "str:1", "int:1"),
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
    *("789.34000000000003", "9.9999999999999992e+22", "4.9E-324", "1152921504606846976.0"),
    *("NaN", "Infinity", "-Infinity", "01", "+1", "1.", ".5", "0x10", "1_000", "\uff11"),
)
SCALARS: tuple[Any, ...] = (None, 0, True, False, 1, -1, 2**53 - 1, 1.0, 0.5, -0.0, 1e22, 5e-324)

_SAME_NAMES = (("\u00e9", "e\u0301"), ("\u212b", "\u00c5"), ("\uac00", "\u1100\u1161"))
"""Pairs of names that NFC normalization makes equal."""
_MAX_LEVELS = 3
_STYLES = 1000
_SPACES = ("", "", "", " ", "\n", "\t", "\r\n  ")
_TOKENS = (
    *("", '"', "{", "}", "[", "]", ":", ",", "null", "true", "{}", "/**/", "[" * 8, "]" * 8),
    *("\\", "\\u", "\\ud800", "\\udc00", "\ud800", "\ufeff", "\u00a0", "\x00"),
    *('"id":1,', '"\\u0069d":"x",'),
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^"\[\]{},:]+|.')
_OPEN = re.compile(r"[:,\[{]")
_LEVELS = (70, 1100, 20_000)
"""Levels that strict JSON refuses, and at which parsers raise RecursionError."""
_MEMBER = re.compile(r'(?P<name>"[^"]*"\s*:)[^,{}\[\]]*')
_TEXT = "<text>"
_OVERSIZED = (
    *("[" * 400 + _TEXT + "]" * 400, "[" * 60_000, '{"a":' * 60_000),
    *("[" * 65 + '"' + unit * 100_000 for unit in ('\\"', '"', "\\")),
    *("9" * digits for digits in (4300, 4301, 150_000)),
    *('{"id":"' + "x" * 300_000 + '"}', '{"a":[' + "[]," * 5000 + _TEXT + "]}"),
)
"""Texts that are expensive for a parser without limits, or for one that reads them repeatedly."""


def one_in(rng: Random, count: int) -> bool:
    """Return True in one of so many cases; it shrinks to False."""
    return rng.randrange(count) == 1


def text(rng: Random) -> str:
    """Return a short text; one in a hundred is longer than a key may be."""
    parts = rng.randrange(100)
    if parts == 99:
        return rng.choice(("x", "\u00e9", "#", "e\u0301")) * rng.randint(100, 3000)
    return "".join(rng.choice(TEXTS) for _ in range(1 + parts // 50 + parts // 75))


def value(rng: Random, level: int = 0) -> Any:
    """Return a value that strict JSON can express."""
    kind = rng.randrange(20)
    if level == _MAX_LEVELS or kind < 8:
        return rng.choice(SCALARS)
    if kind < 14:
        return text(rng)
    if kind < 17:
        return [value(rng, level + 1) for _ in range(rng.randrange(4))]
    names = [text(rng) for _ in range(rng.randrange(4))]
    names += rng.choice(_SAME_NAMES) if one_in(rng, 10) else ()
    return {name: value(rng, level + 1) for name in names}


def changed(rng: Random, tree: Any) -> Any:
    """Return a copy of a JSON value with one change, which may keep its meaning (1 and 1.0)."""
    pick = rng.randrange(20)
    match tree:
        case dict() if tree and pick < 18:
            name = rng.choice(list(tree))
            if pick < 12:
                return {**tree, name: changed(rng, tree[name])}
            if pick < 14:
                return {**tree, text(rng): value(rng, 1)}
            others = {key: member for key, member in tree.items() if key != name}
            return others if pick < 16 else {**others, name + text(rng): tree[name]}
        case list() if tree and pick < 16:
            place = rng.randrange(len(tree))
            return [changed(rng, m) if n == place else m for n, m in enumerate(tree)]
        case str() if pick < 10:
            return tree + text(rng)
        case bool() | int() | float() if pick < 10:
            return rng.choice((float(tree), str(tree), bool(tree), [tree], -tree))
    return value(rng, 1)


def spelled(rng: Random, tree: Any, *, recomposed: bool = False) -> str:
    """Return a JSON text of a value, with any spaces, key order, escapes and number formats.

    With `recomposed`, texts and names may also change between the Unicode forms NFC and NFD.
    """
    # One choice decides on all of the style: each choice of Hypothesis takes time.
    choice = rng.randrange(_STYLES)
    style = Random(choice)

    def token(found: re.Match[str]) -> str:
        text = found[0]
        if text[0] == '"':
            return _string(style, json.loads(text), recomposed=recomposed)
        if text[0] in "-0123456789":
            return _number(style, text)
        space = style.choice(_SPACES)
        return space + text + space if text in "[{,:}]" else text

    plain = json.dumps(_shuffled(style, tree), separators=(",", ":"))
    return _TOKEN.sub(token, plain) if choice else json.dumps(tree, ensure_ascii=False)


def _shuffled(style: Random, tree: Any) -> Any:
    """Return a value with the names of its objects in another order."""
    match tree:
        case list():
            return [_shuffled(style, member) for member in tree]
        case dict():
            names = style.sample([*tree], len(tree))
            return {name: _shuffled(style, tree[name]) for name in names}
    return tree


def _number(style: Random, plain: str) -> str:
    if "e" in plain or one_in(style, 2):
        return plain.replace("e", style.choice("eE"))
    zeros = ("0", "00", "e0", "E-0") if "." in plain else (".0", "e0", "E+0", ".00e-0")
    return plain + style.choice(zeros)


def _string(style: Random, text: str, *, recomposed: bool) -> str:
    if recomposed:
        text = unicodedata.normalize(style.choice(("NFC", "NFD")), text)
    pick = style.randrange(10)
    if pick < 9 or len(text) > 50:
        return json.dumps(text, ensure_ascii=pick > 3).replace("/", style.choice(("/", "\\/")))
    digits = text.encode("utf-16-be", errors="surrogatepass").hex()
    units = (digits[at : at + 4] for at in range(0, len(digits), 4))
    return '"' + "".join("\\u" + style.choice((u, u.upper())) for u in units) + '"'


def hostile(rng: Random, tree: Any) -> str:
    """Return a JSON text of a value, which may be changed before or damaged afterwards."""
    for _ in range(rng.choice((0, 0, 1, 2))):
        tree = changed(rng, tree)
    text = spelled(rng, tree)
    faults = rng.randrange(50) - 30  # two texts in five are damaged
    if faults < 0:
        return text
    if faults == 19:
        whole = rng.choice((None, *_OVERSIZED))
        return nested(rng, text) if whole is None else whole.replace(_TEXT, text)
    if faults == 18:
        return rng.choice(("\ufeff", "\ufeff\ufeff")) + text
    for _ in range(1 + faults // 12 + faults // 17):
        text = _damaged(rng, text)
    return text


def nested(rng: Random, text: str) -> str:
    """Return a text with many levels in place of a value, or of the text; half of them are closed.

    What follows stays, so that the text is valid JSON if the value was a whole one.
    """
    start = rng.choice([0, *(found.end() for found in _OPEN.finditer(text))])
    unit, end = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")))
    levels = rng.choice(_LEVELS)
    tree = f"{unit * levels}0{end * levels * rng.randrange(2)}"
    return text[:start] + tree + rng.choice(("", ",")) + text[start:]


def _damaged(rng: Random, text: str) -> str:
    """Return a text with one fault."""
    pick = rng.randrange(20)
    if pick > 16:
        depth: int = rng.choice([1, *range(59, 66), 100])
        return "[" * depth + text + "]" * depth
    members = list(_MEMBER.finditer(text)) if pick > 12 else []
    if members:
        member, number = rng.choice(members), rng.choice(NUMBERS)
        # Replaces the value, or inserts another member of the same name.
        rest = text[member.end() :] if one_in(rng, 2) else f",{text[member.start() :]}"
        return text[: member.end("name")] + number + rest
    start = rng.randint(0, len(text))
    places = start, min(len(text), start + rng.choice((1, 1, 2, 8, 64)))
    # Deletes, repeats, inserts or replaces a few characters.
    return text[: rng.choice(places)] + rng.choice(_TOKENS) + text[rng.choice(places) :]
