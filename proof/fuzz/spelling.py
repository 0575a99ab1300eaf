"""One JSON value, written in another of the ways that mean the same."""

import json
import unicodedata
from random import Random
from typing import Any

_SPACES = ("", "", "", " ", "\n", "\t", "\r\n  ")


def spelled(rng: Random, value: Any, *, recomposed: bool = False) -> str:
    """Return a JSON text of a value: with its spaces, key order, escapes and numbers as they come.

    Args:
        rng: the source of chance.
        value: what the text is to mean.
        recomposed: whether texts, and the names of members, may take another Unicode form too.
    """
    match value:
        case str():
            return _text(rng, _recomposed(rng, value) if recomposed else value)
        case list():
            members = [spelled(rng, member, recomposed=recomposed) for member in value]
            return f"[{_joined(rng, members)}]"
        case dict():
            return _object(rng, value, recomposed=recomposed)
        case bool() | None:
            return json.dumps(value)
        case _:
            return _number(rng, value)


def _object(rng: Random, value: dict[str, Any], *, recomposed: bool) -> str:
    members = [
        spelled(rng, name, recomposed=recomposed)
        + f"{rng.choice(_SPACES)}:{rng.choice(_SPACES)}"
        + spelled(rng, member, recomposed=recomposed)
        for name, member in value.items()
    ]
    rng.shuffle(members)
    return f"{{{_joined(rng, members)}}}"


def _joined(rng: Random, members: list[str]) -> str:
    space = rng.choice(_SPACES)
    return space + f"{space},{rng.choice(_SPACES)}".join(members) + rng.choice(_SPACES)


def _recomposed(rng: Random, text: str) -> str:
    return unicodedata.normalize("NFC" if rng.random() < 0.5 else "NFD", text)


def _text(rng: Random, text: str) -> str:
    pick = rng.random()
    if pick < 0.4:
        return json.dumps(text, ensure_ascii=False)
    if pick < 0.9 or len(text) > 50:
        return json.dumps(text).replace("/", rng.choice(("/", "\\/")))
    units = text.encode("utf-16-be", errors="surrogatepass").hex()
    escapes = (f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return (
        '"' + "".join(rng.choice((one, one.upper().replace("\\U", "\\u"))) for one in escapes) + '"'
    )


def _number(rng: Random, number: float) -> str:
    plain = json.dumps(number)
    if "e" in plain or rng.random() < 0.5:
        return plain.replace("e", rng.choice("eE"))
    if "." in plain:
        return plain + rng.choice(("0", "00", "e0", "E-0"))
    return plain + rng.choice((".0", "e0", "E+0", ".00e-0"))
