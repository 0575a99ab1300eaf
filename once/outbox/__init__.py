"""Outbox: events of a transaction in; events on the topic out, published after the commit.

`outgoing` writes them into the dedup record, `stream_relay` publishes them from the table's stream,
`unrouted` keeps those that no consumer takes. Used by `commit` and by two functions of the service.
"""
