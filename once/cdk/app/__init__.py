"""A whole service from its registry: its stacks, checks, outputs, and the record of its names.

In: a `Registry` of consumers. Out: the stacks `<service>-state` and `<service>-service`, with
every output that the command line `once` reads. `docs/your-service.md` shows the app of a service.
"""
