"""The command `once trace`.

In: a key. Out: a timeline of what every consumer did with the event, and with those that it
caused. Used by `once.ops.__main__`.
"""
