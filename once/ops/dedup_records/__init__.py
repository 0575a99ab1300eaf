"""Dedup records: finding, scanning, reading and describing them.

In: keys, events, or a period. Out: items of the dedup table, whole records or single attributes.
Used by `dead_letters`, `dlq`, `trace` and `outbox`.
"""
