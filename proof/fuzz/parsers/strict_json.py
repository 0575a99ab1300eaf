"""`once.events.strict_json.parse`: reads texts with one meaning, refuses others with a reason."""

from typing import Any

import msgspec

from once.errors import TooLarge, Unparseable
from once.events.strict_json import parse
from proof.fuzz import bodies, reference
from proof.fuzz.target import Target, claim

LISTED = (Unparseable, TooLarge)
MAX_BYTES = 256 * 1024


def check(text: str) -> None:
    """Hold the parser against a reference, and against another JSON parser."""
    try:
        tree = parse(text, max_bytes=MAX_BYTES)
    except TooLarge:
        claim(len(text.encode()) > MAX_BYTES, "a text within the limit is not too large")
    except Unparseable:
        claim(_meaning(text) is None, "strict JSON is read")
    else:
        claim(len(text.encode()) <= MAX_BYTES, "a text over the limit is refused")
        claim(reference.meaning(tree) == _meaning(text), "what is read is what was written")
        claim(msgspec.json.decode(text) == tree, "two parsers read one text alike")


def _meaning(text: str) -> Any:
    try:
        return reference.meaning(reference.read(text))
    except reference.Refused:
        return None


TARGET = Target("strict_json", share=20, draw=bodies.json_text, check=check)
