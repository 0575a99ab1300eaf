"""The commands `once webhooks list|show|replay|send|listen`.

In: ids of webhooks or a filter, and captures from their table. Out: tables, JSON, files with
bodies; events and requests that are sent. Used by `once.ops.__main__`.
"""
