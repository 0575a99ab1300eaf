"""Scenario `webhooks`: 1,000 webhooks of four providers, sent again over days, forged, killed.

In: a deployed shop with an ingress of five endpoints and a consumer, `app`. Out:
`reports/webhooks.json`, and whether each webhook was captured and became one event. Used by
`demo.command`. Senders and audit share no code with the library.
"""
