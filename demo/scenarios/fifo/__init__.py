"""Scenario `fifo`: movements of accounts through two FIFO consumers, with failures and kills.

In: a deployed shop with two more consumers, `APP`. Out: `reports/fifo.json`, and whether each
account's movements were applied once and in order. Used by `demo.command`. The audit shares no code
with the library.
"""

from demo.scenarios.fifo.scenario import APP, fifo

__all__ = ["APP", "fifo"]
