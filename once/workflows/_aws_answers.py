"""Errors of Step Functions and Lambda: whether the workflow was certainly not started."""

from botocore.config import Config
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError

from once.errors import NotDone, PermanentError

# The effect ledger retries. Two requests end within `Limits.WORKFLOW_START_SECONDS`.
ONE_ATTEMPT = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})

_REFUSED_REQUEST = {
    *("InvalidExecutionInput", "InvalidName", "ValidationException"),
    *("InvalidRequestContentException", "RequestTooLargeException"),
    *("SerializedRequestEntityTooLargeException", "UnsupportedMediaTypeException"),
}
"""Codes of errors that each attempt with the same name and input would meet."""

_CLIENT_ERRORS = range(400, 500)


def meaning_of(error: Exception, workflow: str) -> Exception:
    """Return the exception that tells the library whether a workflow was started.

    A PermanentError or NotDone if it certainly was not; `error` itself if that is unknown. Missing
    rights, a missing workflow and a limit may pass, as a missing table may.

    Args:
        error: the SDK's exception.
        workflow: the ARN of the workflow.
    """
    if isinstance(error, ConnectTimeoutError | EndpointConnectionError):
        return NotDone(f"AWS was not reached to start {workflow}")
    if not isinstance(error, ClientError):
        return error
    text = f"AWS refuses to start {workflow}: {code_of(error)}"
    if code_of(error) in _REFUSED_REQUEST:
        return PermanentError(text)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return NotDone(text) if status in _CLIENT_ERRORS else error


def code_of(error: Exception) -> str:
    """Return the code of AWS's error; empty if AWS gave no answer."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def region_of(arn: str) -> str:
    """Return the region of an ARN, in which the workflow is started."""
    return arn.split(":")[3]
