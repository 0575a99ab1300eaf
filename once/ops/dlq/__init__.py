"""The commands `once dlq list|show|redrive|purge|import`.

In: message ids, a filter, or a file of exported letters. Out: tables, JSON, such a file; redriven,
deleted or restored letters. Used by `once.ops.__main__`.
"""
