"""Text about an error that holds nothing of a message: fit for a log."""

import traceback


def summary_of(error: Exception) -> str:
    """Return an error's class, with AWS's own code where there is one."""
    response = getattr(error, "response", None)  # botocore sets it to None where none came
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def place_of(error: Exception) -> str:
    """Return the function and line in which an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}:{frames[-1].lineno}" if frames else "an unknown place"
