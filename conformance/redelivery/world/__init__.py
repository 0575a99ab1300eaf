"""The world of one run: a simulated AWS, a clock, the source queue, the function's processes.

In: a `Subject`. Out: invocations of its handler, and the state that they leave.
"""
