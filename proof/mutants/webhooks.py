"""Broken webhook ingresses: each must be caught by the runs of `proof.webhooks`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest.mock import PropertyMock, patch

from once.claim_check.store import ClaimStore
from once.commit.committer import Committer
from once.commit.request import CommitRequest
from once.commit.result import COMMITTED, DUPLICATE, CommitOutcome, CommitResult, failed
from once.errors import KeyConflict, OnceError, RequestRefused
from once.webhooks.http import Request
from once.webhooks.ingress import WebhookIngress
from once.webhooks.profile import Profile
from once.webhooks.secrets import SecretCache
from once.webhooks.signature import Verdict, verify
from proof.mutants import commits

_INGRESS = "once.webhooks.ingress"
_FOR_EVER = 1e12
_commit, _handle, _write, _of = (
    Committer.commit,
    WebhookIngress.handle,
    ClaimStore.write,
    SecretCache.of,
)


def _ingress_with(change: Callable[[CommitResult], CommitResult]) -> AbstractContextManager[Any]:
    """Change the result of each commit of the ingress, and of no consumer."""

    def commit(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        results = _commit(self, requests)
        return [*map(change, results)] if _is_webhook(requests) else results

    return patch.object(Committer, "commit", commit)


def _is_webhook(requests: Sequence[CommitRequest]) -> bool:
    return requests[0].transaction.identity.pk.startswith("webhooks#")


def _in_two(broken: Callable[..., list[CommitResult]]) -> AbstractContextManager[Any]:
    """Commit what the ingress writes in two transactions."""

    def commit(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        return (broken if _is_webhook(requests) else _commit)(self, requests)

    return patch.object(Committer, "commit", commit)


def _answered_first(self: WebhookIngress, event: Any, context: Any) -> Any:
    answer = _handle(self, event, context)
    return {**answer, "statusCode": 200} if answer["statusCode"] >= 500 else answer


def _also_with(*shifts: int) -> Callable[..., Verdict]:
    """Return a check that also passes requests whose time is some seconds off."""

    def shifted(profile: Profile, secrets: Sequence[str], request: Request, now: float) -> Verdict:
        verdicts = [verify(profile, secrets, request, now + s) for s in (0, *shifts)]
        return Verdict.GENUINE if Verdict.GENUINE in verdicts else verdicts[0]

    return shifted


def _conflict_dropped(result: CommitResult) -> CommitResult:
    return DUPLICATE if isinstance(result.cause, KeyConflict) else result


def _duplicate_refused(result: CommitResult) -> CommitResult:
    is_duplicate = result.outcome is CommitOutcome.DUPLICATE
    return failed(RequestRefused("known")) if is_duplicate else result


def _never_refreshed(self: SecretCache, endpoint: str, *, refreshed: bool = False) -> Any:  # noqa: ARG001
    return _of(self, endpoint)


def _ignored_failure(self: ClaimStore, claims: Any) -> None:
    with suppress(OnceError):
        _write(self, claims)


WEBHOOK_MUTANTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "no check of signatures": lambda: patch(f"{_INGRESS}.verify", lambda *_: Verdict.GENUINE),
    "no tolerance for the future": lambda: patch(
        f"{_INGRESS}.verify", _also_with(*range(300, 1500, 300))
    ),
    "no limit of age": lambda: patch(f"{_INGRESS}.verify", _also_with(*range(-300, -4500, -300))),
    "secrets that are never read again": lambda: patch.object(SecretCache, "of", _never_refreshed),
    "secrets that are kept for ever": lambda: patch(
        "once.webhooks.secrets.KEPT_SECONDS", _FOR_EVER
    ),
    "the current secret alone": lambda: patch("once.webhooks.secrets._STAGES", ("AWSCURRENT",)),
    "an id that nobody signed is the key": lambda: patch.object(
        Profile, "has_signed_id", PropertyMock(return_value=True)
    ),
    "success whatever the ingress did": lambda: patch.object(
        WebhookIngress, "handle", _answered_first
    ),
    "success before the commit is sure": lambda: _ingress_with(lambda _: COMMITTED),
    "the dedup record before the capture": lambda: _in_two(commits.claim_then_effect),
    "the capture before the dedup record": lambda: _in_two(commits.effect_then_mark),
    "a conflict is dropped": lambda: _ingress_with(_conflict_dropped),
    "a duplicate is refused": lambda: _ingress_with(_duplicate_refused),
    "a body that may not be stored": lambda: patch.object(ClaimStore, "write", _ignored_failure),
}
