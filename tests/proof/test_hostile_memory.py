"""Ten small messages that decode to large values, in a process with a memory limit."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proof.fuzz import messages

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES = 96
"""Memory limit, beyond the size of the process before it reads the messages."""

SCRIPT = """
import json, resource, sys
from pathlib import Path
from proof.fuzz import messages
from proof.fuzz.deliveries import Aws, handled

batch, limit = json.loads(sys.stdin.read())
records = [one | {"messageId": f"m-{at}"} for at, one in enumerate(batch)]
handled("orders", [messages.message("{")], Aws())
aws = Aws()
pages = int(Path("/proc/self/statm").read_text().split()[0])
size = pages * resource.getpagesize() + limit * 2**20
resource.setrlimit(resource.RLIMIT_AS, (size, size))
answer = handled("orders", records, aws)
json.dump({
    "committed": sorted(aws.records),
    "buried": sorted(aws.dead_letters),
    "retried": [one["itemIdentifier"] for one in answer["batchItemFailures"]],
}, sys.stdout)
"""


def run(batch: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Process a batch in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([batch, MEGABYTES]),
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def order(number: int, **attributes: messages.Attribute) -> messages.Message:
    line = {"sku": "tea", "quantity": 1, "unit_price": 450}
    data = {"order_id": f"o-{number}", "customer_id": "c", "currency": "EUR", "lines": [line]}
    event = {"specversion": "1.0", "id": f"e-{number}", "source": "/shop", "type": "order.placed"}
    named = {name.replace("_", "-"): value for name, value in attributes.items()}
    return messages.message(json.dumps({**event, "data": data}), named)


def packed(text: str) -> messages.Attribute:
    return messages.binary(messages.compressed(text))


MANY = "[" + "[]," * 2_790_000 + "[]]"
FORGED = {
    "a body of many arrays": {"once_original_gzip": packed(f'{{"body": {MANY}}}')},
    "attributes of many arrays": {
        "once_original_gzip": packed(f'{{"body": "", "attributes": {MANY}}}')
    },
    "attributes": {"once_attributes": messages.string("{" + '"":{},' * 70_000 + '"":{}}')},
    "nested attributes": {"once_attributes": messages.string("[" * 500_000)},
    "lineage": {"once_lineage": messages.string("m," * 250_000)},
}


@pytest.mark.parametrize("attributes", FORGED.values(), ids=FORGED)
def test_ten_hostile_messages_cost_their_neighbours_nothing(
    attributes: dict[str, messages.Attribute],
) -> None:
    sound = [order(number, **attributes) for number in range(5)]
    bad = [message | {"body": "{"} for message in sound]
    found = run([*sound, *bad, *(order(number) for number in range(10, 17))])
    healthy = [f"orders#event#/shop#e-{number}" for number in range(10, 17)]
    assert set(healthy) <= set(found["committed"])
    assert found["retried"] == []
    assert len(found["buried"]) == 5


def test_ten_moved_messages_are_buried_unopened() -> None:
    moved = order(0, **FORGED["a body of many arrays"])
    moved["body"] = "The message is in the attribute once-original-gzip"
    found = run([*[moved] * 10, order(11)])
    assert found["committed"] == ["orders#event#/shop#e-11"]
    assert len(found["buried"]) == 10
