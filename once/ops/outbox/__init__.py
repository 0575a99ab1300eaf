"""The command `once outbox republish`.

In: a period, and optionally a consumer. Out: committed events, published again by the relay
or sent to one consumer's queue. Used by `once.ops.__main__`.
"""
