"""The shop's CDK app with two FIFO consumers, the second of which takes the events of the first."""

from dataclasses import replace
from pathlib import Path

from once.cdk import ConsumerProps, TableProps, run_app
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY

HERE = Path(__file__).resolve().parent
RECEIVES = 20
"""Kills and failures use up receives of every message in the batch; none may be dead-lettered."""

LEDGER = ConsumerProps(
    "ledger",
    external=("account.moved",),
    tables=(TableProps("accounts", "account_id"),),
    publishes=("account.balanced",),
    fifo=True,
    ordered_by="account_id",
    timeout_seconds=6,
    max_receive_count=RECEIVES,
    folder=HERE / "ledger",
)
STATEMENTS = ConsumerProps(
    "statements",
    events=("account.balanced",),
    tables=(TableProps("statements", "account_id"),),
    fifo=True,
    ordered_by="account_id",
    timeout_seconds=6,
    max_receive_count=RECEIVES,
    folder=HERE / "statements",
)
LINES = (LEDGER, STATEMENTS)

if __name__ == "__main__":
    run_app(replace(REGISTRY, consumers=(*CONSUMERS, *LINES)))
