"""Batch: the records of one invocation in; Lambda's partial batch answer out.

Decides which messages run, in which order and which commit together; moves messages that were
received often to the isolation queue. Used by `once.consumer`.
"""
