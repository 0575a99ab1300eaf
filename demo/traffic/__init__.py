"""Sample orders: planned from a seed, and sent with duplicates, conflicts and malformed bodies.

In: the numbers of messages by kind. Out: messages on a topic, and a manifest of them. Used by the
scenarios and by `python -m demo send`.
"""
