"""The console: local web pages that show a deployment and repair its failures.

In: a deployment, the operator's AWS credentials. Out: pages on 127.0.0.1 for one browser, changes
of the operator, entries in the operator log. Pages and commands call the same functions.
"""
