"""The console that all commands share, and how values are shown and read there.

In: values and an operator's texts. Out: escaped texts, points in time. Used by every command.
"""
