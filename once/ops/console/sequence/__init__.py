"""Sequence picture of a trace.

In: the entries of a timeline. Out: lanes and arrows with coordinates, which a template draws
as SVG.
"""
