"""The command `once outbox republish`.

In: a period, and perhaps a consumer. Out: committed events that are published again. Used by
`once.ops.__main__`.
"""
