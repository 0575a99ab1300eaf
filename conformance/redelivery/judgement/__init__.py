"""Judgement: how a faulty run differs from the clean runs of the same handler.

In: outcomes. Out: the attributes that may differ, and the differences that may not.
"""
