"""Webhooks: verified, captured and deduplicated, each handed on as one event.

In: HTTP requests of providers, from a function URL or an HTTP API. Out: one transaction with the
capture, the dedup record and the event. `endpoint` and `settings` are shared with the
infrastructure.
"""
