"""Commit: a transaction in; its result out, whatever DynamoDB answers or does not answer.

Builds the request with the dedup record, sends it, and reads each cancellation reason. Used by
`batch`, and by `effects` for the keys of pending records.
"""
