"""Workflows: effects that start a Step Functions execution or a durable Lambda function once.

In: the request of an effect and the terms of a call. Out: the ARN of the execution, whose name
derives from the event's key. A function that declares no workflow does not load this package.
"""
