"""Names of workflows that library and infrastructure share. Standard library only."""

EXECUTION_PREFIX = "once-"
"""Prefix of the names of executions that consumers start. Their roles may read no others."""

RETENTION_DAYS = 14
"""AWS's default of the days for which Lambda keeps an ended durable execution, and its name."""


def workflow_variable(name: str) -> str:
    """Return the environment variable that holds the ARN of a workflow."""
    return f"WORKFLOW_{name.upper()}"


def retention_variable(name: str) -> str:
    """Return the environment variable that holds the retention of a durable function, in days."""
    return f"ONCE_RETENTION_DAYS_{name.upper()}"
