"""Fuzzing: a million messages, events, webhooks and batches for what parses them.

In: a seed. Out: crashes, with the smallest input for each, and the costs of hostile bodies.
"""
