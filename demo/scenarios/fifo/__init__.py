"""Scenario `fifo`: movements of accounts through two FIFO consumers, with failures and kills.

In: a deployed shop with two more consumers, `app`. Out: `reports/fifo.json`, and whether each
account's movements were applied once and in order. Used by `demo.command`. The audit shares no code
with the library.
"""
