"""Scenario `change`: a rename, a faulty version and a removal under traffic, and an audit.

In: a deployed shop with one more consumer, `app`. Out: `reports/change.json`, and whether nothing
was lost, doubled or left unfinished. Used by `demo.command`. The audit shares no code with the
library.
"""
