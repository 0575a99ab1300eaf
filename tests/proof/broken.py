"""Parsers, classifiers and readers that are broken on purpose, each in one way."""

import json
import unicodedata
import zlib
from typing import Any

import msgspec

from once.commit import _cancellation as cancellation
from once.commit import committer as commit
from once.commit.result import COMMITTED, DUPLICATE
from once.errors import OnceError
from once.events import fingerprint as canonical
from once.events import outgoing as outbox
from once.events import strict_json
from once.intake.reader import Delivery
from once.ops.dead_letters import decompression as originals

whole_encoding = strict_json._check_encoding
whole_digest = canonical.digest
whole_judgement = cancellation.classify_record


def nothing(*_: Any, **__: Any) -> None:
    """In the place of a check."""


def unchanged(value: Any, *_: Any) -> Any:
    return value


def decoder(**hooks: Any) -> json.JSONDecoder:
    """The strict decoder, with some of its hooks replaced."""
    strict = strict_json._DECODER
    own = {
        "object_pairs_hook": strict.object_pairs_hook,
        "parse_int": strict.parse_int,
        "parse_float": strict.parse_float,
        "parse_constant": strict.parse_constant,
    }
    return json.JSONDecoder(**own | hooks)


def of_any_size(text: str, max_bytes: int) -> None:
    whole_encoding(text, 2**40)


def without_hash(part: str) -> str:
    return unicodedata.normalize("NFC", part).replace("%", "%25")


def without_percent(part: str) -> str:
    return unicodedata.normalize("NFC", part).replace("#", "%23")


def without_nfc(part: str) -> str:
    return part.replace("%", "%25").replace("#", "%23")


def merely_sorted(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode()


def last_member_wins(value: dict[str, Any]) -> dict[str, Any]:
    return {unicodedata.normalize("NFC", k): canonical._composed(v) for k, v in value.items()}


def inflated_whole(packed: bytes) -> bytes:
    return zlib.decompress(packed, 31)


def inflated_then_measured(packed: bytes) -> bytes:
    content = inflated_whole(packed)
    if len(content) > originals.MAX_BYTES:
        raise ValueError
    return content


def without_subject(value: dict[str, Any]) -> str:
    return whole_digest({**value, "subject": None})


def lenient(event: Any, handler: Any) -> Any:
    return msgspec.convert(event.data, handler.model, strict=False)


def read_without_net(self: Any, record: Any, deadline: Any) -> Delivery:
    delivery = Delivery(record)
    self._read_attributes(delivery)
    delivery.decoded = self._decode(delivery)
    return delivery


def blind_to_content(transaction: Any, stored: Any) -> Any:
    return COMMITTED if stored.commit == transaction.commit_id else DUPLICATE


def blind_to_intents(transaction: Any, stored: Any) -> Any:
    verdict = whole_judgement(transaction, stored)
    return DUPLICATE if verdict.intent is not None else verdict


def all_reasons_to_each(claims: Any, reasons: Any) -> Any:
    def judged(claim: Any) -> Any:
        worst = [r for r in reasons if r != {"Code": "None"}]
        own = (worst + list(reasons))[: len(claim.entries)]
        return commit._classify(claim, own)

    return [judged(claim) for claim in claims]


def unreadable_is_empty(item: Any) -> Any:
    try:
        return outbox.events_in(item)
    except OnceError:
        return []


def by_name_alone(record: Any) -> bool:
    return bool(record["eventName"] != "REMOVE")
