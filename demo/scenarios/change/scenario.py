"""The scenario itself: changes the deployed shop under traffic, redrives, audits and reports."""

import time

from demo.console import console, step
from demo.payment_sandbox import PaymentSandbox
from demo.report import has_enough_faults
from demo.run import wait_until_processed
from demo.scenarios.change.change_audit import REMOVED
from demo.scenarios.change.changing_shop import ChangingShop
from demo.scenarios.change.report import report_change
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment

_LETTERS = 10
"""Dead letters to wait for before the faulty version is rolled back."""
_MINIMUM = {"orders_sent": 100, "resent": 50, "dead_lettered": _LETTERS}


def change(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    """Change the shop under traffic, and write `reports/change.json`.

    Returns:
        Whether nothing was lost, doubled or left unfinished, and enough happened.
    """
    started = time.monotonic()
    shop = ChangingShop(aws, sandbox, deployment)
    retiring = ("inventory", REMOVED)
    with shop.traffic() as traffic:
        shop.deploy("faulty", "a faulty version of inventory")
        shop.wait_for_letters("inventory", _LETTERS)
        shop.deploy("before", "the version before it again")
        shop.deploy("renaming", "warehouse beside inventory, which is its old name")
        due = {order.order_id for order in traffic.sent}
        shop.deploy("retiring", f"inventory and {REMOVED} retire")
        shop.drain(*retiring)
        seen = shop.letters()
        shop.redrive(*retiring)
        shop.deploy("after", f"inventory and {REMOVED} removed")
    wait_until_processed(aws, sandbox, shop.deployment)
    with step("auditing"):
        figures = shop.audit(traffic, due, seen)
    counts = {
        "orders_sent": len(traffic.sent),
        "resent": len(traffic.resent),
        "dead_lettered": len(seen),
        "seconds": round(time.monotonic() - started + deploy_seconds, 1),
    }
    report_change(figures, counts)
    return not any(figures.values()) and has_enough_faults(counts, _MINIMUM, console)
