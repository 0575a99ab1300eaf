"""Checks at synthesis, before anything is deployed.

In: consumers, configuration and the finished construct tree. Out: faults, each with its remedy.
Used by the assembly of an app.
"""
