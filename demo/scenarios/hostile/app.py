"""The shop's CDK app with one more consumer, whose handler dies or hangs on request."""

from dataclasses import replace
from pathlib import Path

from once.cdk import ConsumerProps, TableProps, run_app
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY

COUNTER = ConsumerProps(
    "counter",
    external=("counter.raised",),
    tables=(TableProps("counters", "id"),),
    timeout_seconds=6,
    folder=Path(__file__).resolve().parent / "counter",
)

if __name__ == "__main__":
    run_app(replace(REGISTRY, consumers=(*CONSUMERS, COUNTER)))
