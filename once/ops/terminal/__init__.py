"""Terminal: the console of all commands, formatting of values, parsing of times.

In: values, and texts that an operator or a producer wrote. Out: escaped texts, points in time. Used
by `dedup_records`, `dead_letters` and every command.
"""
