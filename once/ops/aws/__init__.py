"""Access to AWS: clients, batch calls, a deployment's resources, queue depths.

In: the environment's credentials and the outputs of the stacks. Out: clients, a `Deployment`,
`QueueDepth`s. Used by every other package of `once.ops` except `terminal`.
"""
