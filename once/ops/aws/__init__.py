"""Clients of AWS, batch calls, and the parts of a deployment.

In: the environment's credentials and the outputs of the stacks. Out: clients, a `Deployment`,
queue depths. Used by every command.
"""
