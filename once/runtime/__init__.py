"""A function's runtime: the time that is left, the SDK's clients, metrics and traces.

In: Lambda's context and the function's settings. Out: a `Deadline`, clients, a metrics log.
Used by every part that runs in a function.
"""
