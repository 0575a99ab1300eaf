"""S3: objects by their key, in buckets that are one here."""

import base64
from collections.abc import Mapping
from typing import Any

from proof.world.errors import ServiceError


class Objects:
    """All objects.

    Attributes:
        content: the bytes of each object, by its key.
    """

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an operation; a body is base64, in the request and in the answer.

        Raises:
            ServiceError: the error response.
        """
        key = request["Key"]
        if operation == "PutObject":
            self.content[key] = base64.b64decode(request["Body"])
            return {}
        if operation != "GetObject":
            raise ServiceError("AccessDenied", 403)
        if key not in self.content:
            raise ServiceError("NoSuchKey", 404)
        content = self.content[key]
        return {"Body": base64.b64encode(content).decode(), "ContentLength": len(content)}
