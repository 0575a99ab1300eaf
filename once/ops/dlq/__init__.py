"""The commands `once dlq list|show|redrive|purge`.

In: message ids, or a filter. Out: tables, JSON, a file of exported letters; redriven or
deleted letters. Used by `once.ops.__main__`.
"""
