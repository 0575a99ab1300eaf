"""Sample orders: planned from a seed, and sent with duplicates, conflicts and malformed bodies.

In: options of `python -m demo send`. Out: messages on a topic or a queue, and a manifest of them.
Used by `demo.__main__`.
"""
