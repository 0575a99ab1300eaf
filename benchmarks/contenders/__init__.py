"""The contenders, in the order of the tables."""

from benchmarks.contenders.base import Connect, Contender, Handle, settings
from benchmarks.contenders.library import once
from benchmarks.contenders.plain import claim_then_put, put
from benchmarks.contenders.powertools import idempotent_then_put
from benchmarks.deployed.raw import Raw
from once.sdk import SDK
from once.settings import Dedup

__all__ = [
    "CLAIM",
    "CONTENDERS",
    "GROUPED",
    "GROUPED_THREADS",
    "ITEM",
    "ITEM_GROUPED",
    "PLAIN",
    "POWERTOOLS",
    "RAW",
    "RAW_DEFAULT",
    "UNGROUPED",
    "Contender",
]

PLAIN, CLAIM, POWERTOOLS = "plain put", "claim, then put", "Powertools"
RAW, RAW_DEFAULT = "raw transaction", "raw, default client"
UNGROUPED, GROUPED, GROUPED_THREADS = "Once", "Once, grouped", "Once, 4 threads"
ITEM, ITEM_GROUPED = "Once, item", "Once, item, grouped"
GROUP, THREADS = 10, 4


def _raw(connect: Connect) -> Handle:
    return Raw(connect("dynamodb"), settings())


CONTENDERS = (
    Contender(PLAIN, put, requests=1, exactly_once=False),
    Contender(CLAIM, claim_then_put, requests=2),
    Contender(POWERTOOLS, idempotent_then_put, requests=3),
    Contender(RAW, _raw, requests=1),
    Contender(RAW_DEFAULT, _raw, requests=1, config=None),
    Contender(UNGROUPED, once(group_size=1), requests=1, config=SDK),
    Contender(GROUPED, once(group_size=GROUP), requests=1 / GROUP, groups=True, config=SDK),
    Contender(
        GROUPED_THREADS,
        once(group_size=GROUP, commit_threads=THREADS),
        requests=1 / GROUP,
        groups=True,
        config=SDK,
    ),
    Contender(ITEM, once(group_size=1, dedup=Dedup.ITEM), requests=1, config=SDK),
    Contender(
        ITEM_GROUPED,
        once(group_size=GROUP, dedup=Dedup.ITEM),
        requests=1 / GROUP,
        groups=True,
        config=SDK,
    ),
)
