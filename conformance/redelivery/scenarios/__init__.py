"""Scenarios: the messages delivered with one fault.

In: a world. Out: for each scenario an `Outcome`: the state it left, what became of each message,
and its course in words.
"""
