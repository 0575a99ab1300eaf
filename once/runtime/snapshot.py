"""SnapStart: the hooks around the snapshot of an initialized function.

Lambda initializes a version once, and restores each of its execution environments from that
snapshot. So the snapshot holds what takes long to make, and nothing that must be unique. The
library makes no connection and no id during initialization, and its ids come from the operating
system, whose randomness AWS seeds anew after a restore. Python's own generator is copied with its
state: two functions would wait for equal delays after a conflict, and trace ids would repeat.
"""

import os
import random
from typing import Any


def prepare_snapshot(*clients: Any) -> None:
    """Register the hooks of a function with SnapStart; without effect in any other function.

    Clients that are created on first use are created before the snapshot.
    """
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "snap-start":
        return
    # A part of Lambda's Python runtimes. Other functions do not load it.
    from snapshot_restore_py import register_after_restore, register_before_snapshot

    register_before_snapshot(_create, *clients)
    register_after_restore(random.seed)


def _create(*clients: Any) -> None:
    for client in clients:
        client.meta  # noqa: B018 - the access creates the client
