"""Handlers: registrations in; transactions out, filled with writes, reads, events and an effect.

Holds the checks of registrations and the writes in DynamoDB's form. Used by handlers through
`once`, by `batch` to run them, and by `commit` to send their transactions.
"""
