"""Handlers: registrations in; transactions out, filled with writes, reads, events and an effect.

Holds the rules of registration and the writes as DynamoDB spells them. Used by handlers through
`once`, by `batch` to run them, and by `commit` to send what they wrote.
"""
