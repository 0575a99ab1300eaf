"""The command `once trace`.

In: a key. Out: a timeline of the consumers' actions on the event, and on the events that it caused,
as a table or JSON. Used by `once.ops.__main__`.
"""
