"""Dedup records as an operator finds and reads them.

In: keys, or a point in time. Out: records, whole or attribute by attribute. Used by `dlq`,
`trace` and `outbox`.
"""
