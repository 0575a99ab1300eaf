"""Outbox: changes of dedup records in; events on the topic out, each after its commit.

`relay` publishes the events in new dedup records, `unrouted` keeps published events that no
consumer takes. Used by two functions of the service; `once.events.outgoing` writes the records.
"""
