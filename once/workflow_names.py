"""Names of workflows that library and infrastructure share. Standard library only."""

EXECUTION_PREFIX = "once-"
"""Prefix of the names of executions that consumers start. Their roles may read no others."""


def workflow_variable(name: str) -> str:
    """Return the environment variable that holds the ARN of a workflow."""
    return f"WORKFLOW_{name.upper()}"
