"""Sample events: one dedup record for each distinct event, and no effect without one."""

import pytest

from demo.audit.orders import Findings, SampleFigures, audit_samples
from demo.report import orders_table
from tests.demo.audit.world import World

MANIFEST = {"samples": [{"type": "refund.requested", "consumers": ["refunds"], "distinct": 3}]}


@pytest.mark.parametrize(
    ("recorded", "fates", "expected"),
    [
        (3, {"committed": 2, "refused": 1, "duplicate": 3}, SampleFigures(6, 3, 0, 0)),
        (2, {"committed": 2, "duplicate": 4}, SampleFigures(6, 3, 0, 1)),
        (3, {"committed": 4, "duplicate": 2}, SampleFigures(6, 3, 1, 0)),
        (3, {"committed": 2, "duplicate": 4}, SampleFigures(6, 3, 0, 0)),  # one died unlogged
    ],
    ids=["clean", "lost", "doubled", "killed before its log line"],
)
def test_records_and_logs_are_compared_with_what_was_sent(
    world: World, recorded: int, fates: dict[str, int], expected: SampleFigures
) -> None:
    for number in range(recorded):
        world.commit("refunds", "refund.requested", f"r-{number}")
    world.log("refunds", f'{{"fates": {str(fates).replace(chr(39), chr(34))}}}')
    findings = Findings(sent=0, distinct=0)
    audit_samples(MANIFEST, world.place(), findings)
    assert findings.samples == {"refunds": expected}
    assert (findings.doubled, findings.lost) == (expected.doubled, expected.lost)


def test_the_report_has_a_row_for_each_consumer() -> None:
    findings = Findings(sent=0, distinct=0, samples={"refunds": SampleFigures(20, 10, 0, 0)})
    cells = [list(column.cells) for column in orders_table({}, findings.samples.items()).columns]
    row = dict(zip(*cells, strict=True))
    assert row["refunds"] == "20 received, 10 distinct, 0 doubled, 0 lost"
