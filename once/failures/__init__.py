"""Failures: takes a message and its error; sends a dead letter, or delays the next delivery.

Quarantine with a reason, backoff by visibility timeout, and the circuit breaker. Used by `batch`
for each message that did not commit, and by `outbox` for events that cannot be published.
"""
