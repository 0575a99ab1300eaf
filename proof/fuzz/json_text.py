"""JSON texts: different spellings of one value, and damaged texts."""

import json
import re
import unicodedata
from random import Random
from typing import Any

from proof.fuzz import values

_SPACES = ("", "", "", " ", "\n", "\t", "\r\n  ")
_TOKENS = (
    *('"', "{", "}", "[", "]", ":", ",", "null", "true", "{}", "/**/", "[" * 8, "]" * 8),
    *("\\", "\\u", "\\ud800", "\\udc00", "\ud800", "\ufeff", "\u00a0", "\x00"),
    *('"id":1,', '"\\u0069d":"x",'),
)
_OPEN = re.compile(r"[:,\[{]")
_LEVELS = (70, 1100, 20_000)
"""Levels that strict JSON refuses, and at which parsers raise RecursionError."""
_MEMBER = re.compile(r'(?P<name>"[^"]*"\s*:)[^,{}\[\]]*')
_TEXT = "<text>"
_OVERSIZED = (
    ("[" * 400 + _TEXT + "]" * 400, "[" * 60_000, '{"a":' * 60_000),
    tuple("[" * 65 + '"' + unit * 100_000 for unit in ('\\"', '"', "\\")),
    tuple("9" * digits for digits in (4300, 4301, 150_000)),
    ('{"id":"' + "x" * 300_000 + '"}',),
    ('{"a":[' + "[]," * 5000 + _TEXT + "]}",),
)
"""Texts that are expensive for a parser without limits, or for one that reads them repeatedly."""


def spelled(rng: Random, value: Any, *, recomposed: bool = False) -> str:
    """Return a JSON text of a value, with random spaces, key order, escapes and number formats.

    With `recomposed`, texts and names may also change between the Unicode forms NFC and NFD.
    """
    match value:
        case str():
            return _string(rng, _recomposed(rng, value) if recomposed else value)
        case list():
            return f"[{_joined(rng, [spelled(rng, m, recomposed=recomposed) for m in value])}]"
        case dict():
            members = [
                f"{spelled(rng, name, recomposed=recomposed)}{rng.choice(_SPACES)}:"
                f"{rng.choice(_SPACES)}{spelled(rng, member, recomposed=recomposed)}"
                for name, member in value.items()
            ]
            rng.shuffle(members)
            return f"{{{_joined(rng, members)}}}"
        case bool() | None:
            return json.dumps(value)
        case _:
            return _number(rng, value)


def _joined(rng: Random, members: list[str]) -> str:
    space = rng.choice(_SPACES)
    return space + f"{space},{rng.choice(_SPACES)}".join(members) + rng.choice(_SPACES)


def _recomposed(rng: Random, text: str) -> str:
    return unicodedata.normalize("NFC" if rng.random() < 0.5 else "NFD", text)


def _string(rng: Random, text: str) -> str:
    pick = rng.random()
    if pick < 0.4:
        return json.dumps(text, ensure_ascii=False)
    if pick < 0.9 or len(text) > 50:
        return json.dumps(text).replace("/", rng.choice(("/", "\\/")))
    digits = text.encode("utf-16-be", errors="surrogatepass").hex()
    units = (digits[at : at + 4] for at in range(0, len(digits), 4))
    return '"' + "".join("\\u" + rng.choice((unit, unit.upper())) for unit in units) + '"'


def _number(rng: Random, number: float) -> str:
    plain = json.dumps(number)
    if "e" in plain or rng.random() < 0.5:
        return plain.replace("e", rng.choice("eE"))
    zeros = ("0", "00", "e0", "E-0") if "." in plain else (".0", "e0", "E+0", ".00e-0")
    return plain + rng.choice(zeros)


def hostile(rng: Random, tree: Any) -> str:
    """Return a JSON text of a value, which may be changed before or damaged afterwards."""
    for _ in range(rng.choice((0, 0, 1, 2))):
        tree = values.changed(rng, tree)
    text = spelled(rng, tree)
    return _damaged(rng, text) if rng.random() < 0.4 else text


def _damaged(rng: Random, text: str) -> str:
    """Return a text with one to three faults, rarely an oversized text instead."""
    pick = rng.random()
    if pick < 0.02:
        return rng.choice(rng.choice(_OVERSIZED)).replace(_TEXT, text)
    if pick < 0.04:
        return nested(rng, text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = _damaged_once(rng, text)
    return text


def nested(rng: Random, text: str) -> str:
    """Return a text with many levels in place of a value, or of the text; half of them are closed.

    What follows stays, so that the text is valid JSON if the value was a whole one.
    """
    start = rng.choice([0, *(found.end() for found in _OPEN.finditer(text))])
    unit, end = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")))
    levels = rng.choice(_LEVELS)
    value = f"{unit * levels}0{end * levels if rng.random() < 0.5 else ''}"
    return text[:start] + value + rng.choice(("", ",")) + text[start:]


def _damaged_once(rng: Random, text: str) -> str:
    pick = rng.random()
    if pick < 0.15:
        depth: int = rng.choice([1, *range(59, 66), 100])
        return "[" * depth + text + "]" * depth
    members = list(_MEMBER.finditer(text)) if pick < 0.35 else []
    if members:
        member, number = rng.choice(members), rng.choice(values.NUMBERS)
        # Replaces the value, or inserts another member of the same name.
        rest = rng.choice((text[member.end() :], f",{text[member.start() :]}"))
        return text[: member.end("name")] + number + rest
    start = rng.randint(0, len(text))
    places = start, min(len(text), start + rng.choice((1, 1, 2, 8, 64)))
    # Deletes, repeats, inserts or replaces a few characters.
    token = rng.choice(("", rng.choice(_TOKENS)))
    return text[: rng.choice(places)] + token + text[rng.choice(places) :]
