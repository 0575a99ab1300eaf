"""Access to AWS: clients, batch calls, queue depths, a deployment's resources, function logs.

In: the environment's credentials and the outputs of the stacks. Out: clients, a `Deployment`,
`QueueDepth`s. Used by every other part of `once.ops` except `terminal`.
"""
