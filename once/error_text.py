"""Error text for logs: contains no part of a message."""

import traceback


def summary_of(error: Exception) -> str:
    """Return an error's class, and the error code of AWS if there is one."""
    response = getattr(error, "response", None)  # None for some errors without a response
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def place_of(error: Exception) -> str:
    """Return the function and line in which an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}:{frames[-1].lineno}" if frames else "an unknown place"
