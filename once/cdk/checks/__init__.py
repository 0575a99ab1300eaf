"""Checks at synthesis, before anything is deployed.

In: properties of consumers, configuration and the finished construct tree. Out: faults, each with
its remedy. Used by the constructs of `once.cdk` and by the apps that use them.
"""
