"""Consumers that charge a card and store the order, one module for each known approach.

In: SQS messages with an order. Out: one charge and one stored order for each, if the approach holds
what is expected of it. `checkout` has the work that all of them share.
"""
