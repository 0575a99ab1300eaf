"""Sends e-mails with Amazon SES, and translates its errors to outcomes of an effect."""

import os
from functools import cache
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
)

from once import Call, NotDone, PermanentError

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

_NEVER_SENT = (
    *(ConnectTimeoutError, EndpointConnectionError),
    *(NoCredentialsError, PartialCredentialsError, CredentialRetrievalError),
)
_ONE_CLIENT = Lock()
"""boto3 makes no two clients at a time; their calls are safe for threads."""
_REFUSED = {"MessageRejected", "BadRequestException", "NotFoundException"}


def send(*, to: str, subject: str, text: str, call: Call) -> str:
    """Send an e-mail, and return SES's id of the message.

    Args:
        to: the address.
        subject: the subject line.
        text: the body.
        call: the timeout.

    Raises:
        NotDone: nothing was sent; a later attempt may succeed.
        PermanentError: nothing was sent, and this request can never succeed.
        Exception: it is unknown whether the message was sent.
    """
    try:
        with _ONE_CLIENT:
            client = _client(max(1, int(call.timeout_seconds)))
        answer = client.send_email(
            FromEmailAddress=os.environ["EMAIL_SENDER"],
            Destination={"ToAddresses": [to]},
            Content={"Simple": {"Subject": {"Data": subject}, "Body": {"Text": {"Data": text}}}},
        )
    except _NEVER_SENT as error:
        raise NotDone(f"SES was not reached: {type(error).__name__}") from error
    except ClientError as error:
        raise _meaning(error) from error
    return answer["MessageId"]


def _meaning(error: ClientError) -> Exception:
    """Return the exception that tells the library whether the message was sent."""
    code = error.response["Error"]["Code"]
    if code in _REFUSED:
        return PermanentError(f"SES refuses the message: {code}")
    if error.response["ResponseMetadata"]["HTTPStatusCode"] < HTTPStatus.INTERNAL_SERVER_ERROR:
        return NotDone(f"SES did not take the message: {code}")
    return error


@cache
def _client(timeout_seconds: int) -> "SESV2Client":
    """Return a client without retries: a retry after a lost answer would send a second e-mail."""
    config = Config(
        connect_timeout=timeout_seconds / 4,
        read_timeout=timeout_seconds * 3 / 4,
        retries={"total_max_attempts": 1},
        parameter_validation=False,
    )
    client: SESV2Client = boto3.client("sesv2", config=config)
    return client
