"""The commands `once dlq list|show|redrive|purge`.

In: an operator's choice of dead letters. Out: tables, JSON, and letters that are sent back or
deleted. Used by `once.ops.__main__`.
"""
