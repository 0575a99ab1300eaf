"""The real stores of the lab: Redis and PostgreSQL servers that live as long as one run.

In: a temporary folder. Out: the URL of a server on a Unix socket, and a `redelivery.Store` by which
a check empties it, reads it, and lets time pass in it.
"""
