"""Damage to a text: what a parser meets besides what was meant for it."""

from random import Random

from proof.fuzz import nasty

_TOKENS = (
    *('"', "{", "}", "[", "]", ":", ",", "null", "true", "{}", "/**/", "[" * 8, "]" * 8),
    *("\\", "\\u", "\\ud800", "\\udc00", "\ud800", "\ufeff", "\u00a0", "\x00"),
    *('"id":1,', '"\\u0069d":"x",'),
)
_DEEP, _LONG, _UNENDING = 400, 300_000, 100_000


def damaged(rng: Random, text: str) -> str:
    """Return a text with one to three faults in it; rarely one that is absurd as a whole."""
    if rng.random() < 0.01:
        return absurd(rng, text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = _damaged_once(rng, text)
    return text


def _damaged_once(rng: Random, text: str) -> str:
    start = rng.randint(0, len(text))
    end = min(len(text), start + rng.choice((1, 1, 2, 8, 64)))
    match rng.randrange(6):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:end] + text[start:]
        case 2:
            return text[:start] + rng.choice(_TOKENS) + text[start:]
        case 3:
            return text[:start] + rng.choice(_TOKENS) + text[end:]
        case 4:
            return _renumbered(rng, text)
        case _:
            return nested(text, rng.choice((1, 59, 60, 61, 62, 63, 64, 65, 100)))


def _renumbered(rng: Random, text: str) -> str:
    """Put a number in the place of a value."""
    starts = [at for at, character in enumerate(text) if character == ":"]
    if not starts:
        return rng.choice(nasty.NUMBERS)
    start = rng.choice(starts) + 1
    ends = [at for at in (text.find(",", start), text.find("}", start)) if at > 0]
    return text[:start] + rng.choice(nasty.NUMBERS) + text[min(ends, default=len(text)) :]


def nested(text: str, levels: int) -> str:
    """Return the text inside so many brackets."""
    return "[" * levels + text + "]" * levels


def absurd(rng: Random, text: str) -> str:
    """Return a text that costs whoever reads it without a limit, or more than once."""
    match rng.randrange(6):
        case 0:
            return nested(text, _DEEP)
        case 1:
            return rng.choice(("[", '{"a":')) * (_LONG // 5)
        case 2:
            return "[" * 65 + '"' + rng.choice(('\\"', '"', "\\")) * _UNENDING
        case 3:
            return "9" * rng.choice((4300, 4301, _LONG // 2))
        case 4:
            return '{"id":"' + "x" * _LONG + '"}'
        case _:
            return '{"a":[' + "[]," * 5000 + text + "]}"
