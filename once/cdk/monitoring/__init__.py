"""Alarms, the topic that they notify, and the dashboard.

In: the queues, functions and tables of a construct. Out: alarms and graphs.
Used by the constructs of `once.cdk` and by the stacks of an app.
"""
