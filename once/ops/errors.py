"""Errors of the command line, and remedies for errors of AWS clients."""

import os
from enum import IntEnum

from botocore import exceptions as aws

_SIGN_IN = "sign in (`aws configure` or `aws sso login`), or name a profile in AWS_PROFILE"
_REMEDIES: dict[type[Exception], str] = {
    aws.NoCredentialsError: _SIGN_IN,
    aws.PartialCredentialsError: _SIGN_IN,
    aws.CredentialRetrievalError: _SIGN_IN,
    aws.TokenRetrievalError: _SIGN_IN,
    aws.SSOError: _SIGN_IN,
    aws.ProfileNotFound: "`aws configure list-profiles` shows which there are",
    aws.NoRegionError: "set AWS_REGION, or give the profile a region",
    aws.SSLError: "set AWS_CA_BUNDLE to the certificate of the server in AWS_ENDPOINT_URL",
}
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

    Attributes:
        exit_code: the exit code of the command.

    Remedy: do what the message says, and run the command again.
    """

    exit_code = ExitCode.FAILED


class StoppedError(OpsError):
    """The operator stopped the command; the message says what is certain.

    Remedy: run the same command again: what is done is not done twice.
    """

    exit_code = ExitCode.STOPPED


def unexpected_error_text(error: Exception) -> str:
    """Return the text for an error in the command's own code, after which the command goes on."""
    return f"unexpected, a fault of this command: {error!r}"


def error_with_remedy(error: Exception) -> str:
    """Return an error's text, with its remedy where one is known."""
    remedy = _remedy(error)
    text = str(error).strip().removesuffix(".")
    return f"{text}: {remedy}" if remedy else text


def _remedy(error: Exception) -> str | None:
    if isinstance(error, aws.ClientError):
        code = error.response.get("Error", {}).get("Code", "")
        if code in _EXPIRED | _UNKNOWN:
            return _SIGN_IN
        if "AccessDenied" in code or code == "AuthorizationError":
            return "have this action granted to who you are (`aws sts get-caller-identity`)"
        return None
    for kind, remedy in _REMEDIES.items():
        if isinstance(error, kind):
            return remedy
    if isinstance(error, (aws.ConnectionError, aws.HTTPClientError)):
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "not set")
        return f"see to the network, and to AWS_ENDPOINT_URL ({endpoint})"
    return None
