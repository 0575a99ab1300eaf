"""Event sources: rule, notification, subscription, queue policy or schedule of a consumer's queue.

In: `once.source.Source` and the consumer's queues. Out: CloudFormation resources that deliver into
the queue, and the statements by which exactly they may. Used by `IdempotentConsumer`.
"""
