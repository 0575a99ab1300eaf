"""Scenarios of `python -m demo run`: faults, an outage of the payment provider, hostile messages,
deployments under traffic, message groups in order.

In: a deployed shop and its payment sandbox. Out: a report, and whether the scenario passed. Used by
`demo.command`.
"""
