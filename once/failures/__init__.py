"""Failures: a message and its error in; a dead letter, or a delayed delivery out.

Quarantine with a reason, backoff by visibility timeout, and the circuit breaker. Used by `batch`
for each message that did not commit, and by `outbox` for events that cannot be published.
"""
