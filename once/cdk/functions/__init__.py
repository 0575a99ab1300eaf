"""Handlers of the functions that the constructs make by themselves.

In: stream records of the dedup table, and copies of published events. Out: published and unrouted
events. Used by `once.cdk.outbox_relay` and `once.cdk.unrouted_events`, which package them.
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
