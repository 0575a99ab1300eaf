"""The DynamoDB permissions of a consumer's function, in force while a test delivers a batch."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient
from botocore.exceptions import ClientError

_READS = {"GetItem", "BatchGetItem", "TransactGetItems"}


@contextmanager
def function_role(library: object, *, test: object, grants: Collection[str]) -> Iterator[None]:
    """Deny what the role of a consumer denies: every call of DynamoDB, except reads of items.

    Also denies transactions of other clients than the library's. The role of a function cannot: to
    IAM they look like those of the library.

    Args:
        library: the library's DynamoDB client. It may do everything.
        test: the test's DynamoDB client. It may do everything, as another writer.
        grants: further operations to allow.
    """
    # Every client passes here: one of `boto3.resource`, or one made when the module was imported.
    call = BaseClient._make_api_call  # type: ignore[attr-defined]  # noqa: SLF001
    allowed = {*_READS, *grants}

    def guarded(client: BaseClient, operation: str, parameters: Any) -> Any:
        foreign = client is not library and client is not test
        service = client.meta.service_model.service_name
        if foreign and service == "dynamodb" and operation not in allowed:
            raise _denied(operation)
        return call(client, operation, parameters)

    with patch.object(BaseClient, "_make_api_call", guarded):
        yield


def _denied(operation: str) -> ClientError:
    message = (
        f"the function of a consumer may not call dynamodb:{operation} itself; read with tx.get, "
        "and write with tx.put, tx.update or tx.delete. If the app grants the operation to the "
        f"function, give FakeAws grants=({operation!r},)"
    )
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, operation)
