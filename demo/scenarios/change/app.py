"""The shop's CDK app with one more consumer, in one of the phases of a change: `-c phase=…`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, Registry, SynthError, TableProps, assemble, synthesize
from stacks.consumers import CONSUMERS
from stacks.folders import FUNCTIONS
from stacks.registry import REGISTRY

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


def registry_of(phase: str) -> Registry:
    """Return the shop with the lines of a phase."""
    shop = replace(REGISTRY, consumers=PHASES[phase]).located()
    return replace(shop, functions=_NO_FOLDERS)


if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, registry_of(app.node.try_get_context("phase") or "before"))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
