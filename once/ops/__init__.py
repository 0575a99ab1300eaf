"""The operator's command line: `once …`, against AWS or an embedded one.

In: the outputs of the deployed stacks and an operator's commands. Out: tables, JSON, redrives.
Used by the console script `once`.
"""
