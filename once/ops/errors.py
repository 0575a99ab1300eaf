"""Errors of the command line, and remedies for errors of AWS clients."""

import os
from enum import IntEnum
from typing import Any

_SIGN_IN = "sign in (`aws configure` or `aws sso login`), or name a profile in AWS_PROFILE"
_REMEDIES = {
    "NoCredentialsError": _SIGN_IN,
    "PartialCredentialsError": _SIGN_IN,
    "CredentialRetrievalError": _SIGN_IN,
    "TokenRetrievalError": _SIGN_IN,
    "SSOError": _SIGN_IN,
    "ProfileNotFound": "`aws configure list-profiles` shows which there are",
    "NoRegionError": "set AWS_REGION, or give the profile a region",
    "SSLError": "set AWS_CA_BUNDLE to the certificate of the server in AWS_ENDPOINT_URL",
}
"""By the class of botocore, which is not imported: the help of a command needs none of it."""
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_UNKNOWN = frozenset(
    {"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch"}
)


class ExitCode(IntEnum):
    """Exit codes of every command; a command that did all it was asked to ends with 0."""

    FAILED = 1
    """An error, with its remedy on stderr; or part of the work was not done."""
    USAGE = 2
    """The arguments do not fit together: nothing was done."""
    HIDDEN = 3
    """Dead letters exist that other commands hide from this one, or that SQS withholds."""
    STUCK = 4
    """`status` found something that needs an operator."""
    STOPPED = 130
    """Ctrl-C; stderr says what is certain."""


class OpsError(Exception):
    """A failure that an operator can correct; the message says how.

    `exit_code` is that of the command.

    Remedy: do what the message says, and run the command again.
    """

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class NotFoundError(OpsError):
    """A thing that the operator named does not exist.

    Remedy: name one that the message, or the command in it, shows.
    """


class StoppedError(OpsError):
    """The operator stopped the command; the message says what is certain.

    Remedy: run the same command again: what is done is not done twice.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.STOPPED)


def unexpected_error_text(error: Exception) -> str:
    """Return the text for an error in the command's own code, after which the command goes on."""
    return f"unexpected, a fault of this command: {error!r}"


def is_of_aws(error: Exception) -> bool:
    """Tell whether botocore raised an error."""
    return bool({"BotoCoreError", "ClientError"} & {*_kinds(error)})


def error_with_remedy(error: Exception) -> str:
    """Return an error's text, with its remedy where one is known."""
    remedy = _remedy(error, _kinds(error))
    text = str(error).strip().removesuffix(".")
    return f"{text}: {remedy}" if remedy else text


def _kinds(error: Exception) -> list[str]:
    kinds = type(error).__mro__
    return [kind.__name__ for kind in kinds if kind.__module__ == "botocore.exceptions"]


def _remedy(error: Any, kinds: list[str]) -> str | None:
    if "ClientError" in kinds:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _EXPIRED | _UNKNOWN:
            return _SIGN_IN
        if "AccessDenied" in code or code == "AuthorizationError":
            return "have this action granted to your identity (`aws sts get-caller-identity`)"
        return None
    if found := [_REMEDIES[kind] for kind in kinds if kind in _REMEDIES]:
        return found[0]
    if {"ConnectionError", "HTTPClientError"} & {*kinds}:
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "not set")
        return f"check the network, and AWS_ENDPOINT_URL ({endpoint})"
    return None
