"""Every contender does its work with the claimed number of requests, under the same load."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest

from benchmarks import contenders
from benchmarks.batches import Setting, Wrong, load_of, take
from benchmarks.rows import Sample
from tests.benchmarks.bench import MemoryServer

CLEAN = Setting(records=10, delay_ms=0, messages=20)
BY_NAME = {contender.name: contender for contender in contenders.CONTENDERS}
COSTS = {  # requests and write units of a message without faults
    "plain put": (1, 1),
    "claim, then put": (2, 2),
    "Powertools": (3, 3),
    "raw transaction": (1, 4),
    "raw, default client": (1, 4),
    "Once": (1, 4),
    "Once, grouped": (0.1, 4),
    "Once, 4 threads": (0.1, 4),
    "Once, item": (1, 1),
    "Once, item, grouped": (0.1, 2),
}


def sample(contender: contenders.Contender, setting: Setting = CLEAN) -> Sample:
    return take(MemoryServer(), setting, contender, seed=3)


@pytest.mark.parametrize("contender", contenders.CONTENDERS, ids=attrgetter("name"))
def test_a_contender_has_its_costs_without_faults(contender: contenders.Contender) -> None:
    requests, units = COSTS[contender.name]
    seen = dict(sample(contender))
    assert seen.pop("wall_us") > 0
    assert seen.pop("cpu_us") > 0
    both = {"write_units": units, "write_units_least": units}
    assert seen == {"requests": requests, "read_units": 0, **both}


@pytest.mark.parametrize(
    "contender", [c for c in contenders.CONTENDERS if c.exactly_once], ids=attrgetter("name")
)
def test_faults_neither_lose_nor_double_an_order(
    contender: contenders.Contender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.batches.LEARNING", 20)
    faulty = replace(CLEAN, duplicates=0.2, conflicts=0.05, redelivered=True)
    sample(contender, faulty)  # raises if the tables are wrong


def losing(connect: contenders.Connect) -> contenders.Handle:
    """Raw, but it acknowledges one order without storing it."""
    handle = BY_NAME[contenders.RAW].prepare(connect)
    return lambda event, context: handle({"Records": event["Records"][1:]}, context)


def failing(connect: contenders.Connect) -> contenders.Handle:
    """Raw, but it reports a committed message as failed."""
    handle = BY_NAME[contenders.RAW].prepare(connect)

    def fail(event: Any, context: Any) -> Any:
        handle(event, context)
        return {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}

    return fail


BROKEN = {
    "lost order": (contenders.Contender("broken", losing, requests=1), "never put: order-00000000"),
    "doubled order": (
        contenders.Contender("broken", BY_NAME["plain put"].prepare, requests=1),
        "put more than once: order-00000000",
    ),
    "failed message": (
        contenders.Contender("broken", failing, requests=1),
        "reported as failed: message-of-order-00000000",
    ),
    "too many requests": (
        replace(BY_NAME[contenders.RAW], requests=0.1),
        r"raw transaction, 10 records, 0 ms: 20 requests, .* need 2",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_contender_is_detected(fault: str) -> None:
    contender, message = BROKEN[fault]
    duplicates = 1.0 if fault == "doubled order" else 0.0
    with pytest.raises(Wrong, match=message):
        sample(contender, replace(CLEAN, duplicates=duplicates))


def test_a_load_depends_on_its_seed_and_has_its_share_of_duplicates() -> None:
    setting = replace(CLEAN, duplicates=0.1, messages=50)
    loads = [load_of(setting, BY_NAME[contenders.RAW], seed) for seed in (1, 1, 2)]
    assert loads[0] == loads[1] != loads[2]
    before = {record["messageId"] for e in loads[0].before for record in e["Records"]}
    sent = [record["messageId"] for e in loads[0].measured for record in e["Records"]]
    assert len(sent) == loads[0].messages == 50
    assert sum(message in before for message in sent) == 5
