"""The shop's CDK app with two FIFO consumers, the second of which takes the events of the first."""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, SynthError, TableProps
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS

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
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, *LINES))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
