"""Handlers whose verdict is known: the kit examines them with every check.

Three have a bug that must be found; one has none and must pass.
"""
