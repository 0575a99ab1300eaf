"""Error responses of AWS services."""

from typing import Any


class ServiceError(Exception):
    """An error response.

    Args:
        code: the service's error code, such as `ThrottlingException`.
        status: HTTP status.
        more: further fields of the response, such as `CancellationReasons`.
    """

    def __init__(self, code: str, status: int = 400, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.status = status
        self.more = more
