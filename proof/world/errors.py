"""How a service refuses a call."""

from typing import Any


class ServiceError(Exception):
    """An error answer.

    Args:
        code: as the service spells it, such as `ThrottlingException`.
        status: of HTTP.
        more: further fields of the answer, such as `CancellationReasons`.
    """

    def __init__(self, code: str, status: int = 400, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.status = status
        self.more = more
