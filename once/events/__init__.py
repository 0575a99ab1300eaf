"""Events: a message body in; a checked CloudEvent, its fingerprint and its dedup key out.

Strict parsing, canonical JSON (RFC 8785), key rules, outgoing events and their trace context. Used
by `intake` to read a message, by `commit` to write the outbox, and by `outbox` to publish it.
"""
