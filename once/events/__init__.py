"""Events: a message body in; a checked CloudEvent, its fingerprint and its dedup key out.

Strict parsing, canonical JSON (RFC 8785), key rules and trace context. Used by `intake` to read a
message, and by `outbox` to write one.
"""
