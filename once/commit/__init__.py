"""Commit: takes transactions and returns their results, also if DynamoDB's answer is lost.

Builds the request with the dedup record, sends it, and reads each cancellation reason. Used by
`batch`, and by `effects` for the keys of pending records.
"""
