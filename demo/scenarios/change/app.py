"""The shop's CDK app with one more consumer, in one of the phases of a change: `-c phase=…`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, SynthError, TableProps
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS
from stacks.folders import FUNCTIONS, handler_folder

HERE = Path(__file__).resolve().parent
_NO_FOLDERS = HERE / "none"
"""In place of `functions/`, of which each phase uses another part."""

[INVENTORY] = (line for line in CONSUMERS if line.name == "inventory")
REST = tuple(line for line in CONSUMERS if line is not INVENTORY)
WAREHOUSE = replace(
    INVENTORY, name="warehouse", renamed_from="inventory", folder=FUNCTIONS / "inventory"
)
LOYALTY = ConsumerProps(
    "loyalty",
    external=("order.placed",),
    tables=(TableProps("points", "order_id"),),
    folder=HERE / "loyalty",
)
FAULTY = replace(INVENTORY, folder=HERE / "faulty_inventory")

PHASES: Mapping[str, Sequence[ConsumerProps]] = {
    "before": (*REST, LOYALTY, INVENTORY),
    "faulty": (*REST, LOYALTY, FAULTY),
    "renaming": (*REST, LOYALTY, INVENTORY, WAREHOUSE),
    "retiring": (
        *(*REST, WAREHOUSE),
        *(replace(INVENTORY, retiring=True), replace(LOYALTY, retiring=True)),
    ),
    "after": (*REST, WAREHOUSE),
}
"""The registry in each phase."""

if __name__ == "__main__":
    app = cdk.App()
    try:
        phase = PHASES[app.node.try_get_context("phase") or "before"]
        lines = [replace(line, folder=handler_folder(line)) for line in phase]
        assemble(app, lines, _NO_FOLDERS, webhooks=None)
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
