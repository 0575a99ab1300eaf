"""Ten small messages that decode to large values, in processes with a memory limit."""

import json
import subprocess
import sys
from pathlib import Path

from proof.fuzz import messages

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES = 96
"""Memory limit, beyond the size of the process before it reads the messages."""

SCRIPT = """
import json, os, resource, sys
from pathlib import Path
from proof.fuzz import messages
from proof.fuzz.deliveries import Aws, handled

batches, limit = json.loads(sys.stdin.read())
handled("orders", [messages.message("{")], Aws())
for batch in batches:
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1]:
            print("null", flush=True)
        continue
    records, aws = [one | {"messageId": f"m-{at}"} for at, one in enumerate(batch)], Aws()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + limit * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    answer = handled("orders", records, aws)
    print(json.dumps({
        "committed": sorted(aws.records),
        "buried": sorted(aws.dead_letters),
        "retried": [one["itemIdentifier"] for one in answer["batchItemFailures"]],
    }), flush=True)
    os._exit(0)
"""
"""A process for each batch, in which no memory was freed before; the modules are loaded once."""


def run(*batches: list[messages.Message]) -> list[dict[str, list[str]]]:
    """Process each batch in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([batches, MEGABYTES]),
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line[:2] in ('{"', "nu")]
    assert None not in found, done.stderr[-2000:]
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


def hostile(attributes: dict[str, messages.Attribute]) -> list[messages.Message]:
    """Sound and bad messages with forged attributes, and sound ones without."""
    sound = [order(number, **attributes) for number in range(5)]
    bad = [message | {"body": "{"} for message in sound]
    return [*sound, *bad, *(order(number) for number in range(10, 17))]


def test_ten_hostile_messages_cost_their_neighbours_nothing() -> None:
    """Ten that SQS moved are buried unopened."""
    moved = order(0, **FORGED["a body of many arrays"])
    moved["body"] = "The message is in the attribute once-original-gzip"
    *mixed, unopened = run(*map(hostile, FORGED.values()), [*[moved] * 10, order(11)])
    healthy = {f"orders#event#/shop#e-{number}" for number in range(10, 17)}
    for name, found in zip(FORGED, mixed, strict=True):
        assert healthy <= {*found["committed"]}, name
        assert (found["retried"], len(found["buried"])) == ([], 5), name
    assert unopened["committed"] == ["orders#event#/shop#e-11"]
    assert len(unopened["buried"]) == 10
