"""Broken webhook ingresses: each must be caught by the runs of `proof.webhooks`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from unittest.mock import PropertyMock, patch
from urllib.parse import parse_qs

import msgspec

from once.commit.committer import CommitRequest, Committer
from once.commit.result import COMMITTED, DUPLICATE, CommitOutcome, CommitResult, failed
from once.errors import KeyConflict, OnceError, RequestRefused
from once.events.claim_check import ClaimStore
from once.events.strict_json import parse
from once.names import Record
from once.webhooks.capture import Capture, CaptureAttribute
from once.webhooks.endpoint import Endpoint, Profile
from once.webhooks.ingress import WebhookIngress
from once.webhooks.signature import SecretCache, Secrets, Verdict, verify
from once.webhooks.webhook import Request
from proof.mutants import commits

_INGRESS = "once.webhooks.ingress"
_FOR_EVER = 1e12
_commit, _handle, _item = Committer.commit, WebhookIngress.handle, Capture.item
_write, _of = ClaimStore.write, SecretCache.of


def _ingress_with(change: Callable[[CommitResult], CommitResult]) -> AbstractContextManager[Any]:
    """Change the result of each commit of the ingress, and of no consumer."""

    def commit(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        results = _commit(self, requests)
        return [*map(change, results)] if _is_webhook(requests) else results

    return patch.object(Committer, "commit", commit)


def _is_webhook(requests: Sequence[CommitRequest]) -> bool:
    return requests[0].transaction.identity.pk.startswith("webhooks#")


def _committed_by(broken: Callable[..., list[CommitResult]]) -> AbstractContextManager[Any]:
    """Commit what the ingress writes, and no consumer, in a broken way."""

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


def _without_outbox(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
    [request] = requests
    record, *others = map(msgspec.json.decode, request.entries)
    record["Put"]["Item"].pop(Record.OUTBOX, None)
    return _commit(self, [msgspec.structs.replace(request, entries=[record, *others])])


def _written_anew(self: Capture) -> dict[str, Any]:
    item = _item(self)
    with suppress(KeyError, ValueError):
        text = json.dumps(json.loads(item[CaptureAttribute.BODY]), sort_keys=True)
        item[CaptureAttribute.BODY] = text.encode()
    return item


@contextmanager
def _captured_and_refused() -> Iterator[None]:
    refused: set[bytes] = set()

    def noted(profile: Profile, secrets: Sequence[str], request: Request, now: float) -> Verdict:
        if verify(profile, secrets, request, now) is not Verdict.GENUINE:
            refused.add(request.body)
        return Verdict.GENUINE

    def handle(self: WebhookIngress, event: Any, context: Any) -> Any:
        answer = _handle(self, event, context)
        return {**answer, "statusCode": 401} if Request.of(event).body in refused else answer

    with patch(f"{_INGRESS}.verify", noted), patch.object(WebhookIngress, "handle", handle):
        yield


def _never_refreshed(self: SecretCache, endpoint: str, *, refreshed: bool = False) -> Any:  # noqa: ARG001
    return _of(self, endpoint)


def _current_alone(self: SecretCache, endpoint: str, *, refreshed: bool = False) -> Secrets:
    return Secrets(_of(self, endpoint, refreshed=refreshed).current)


def _by_content_type(endpoint: Endpoint, request: Request) -> Any:
    text = request.body.decode()
    if request.headers.get("content-type") == "application/x-www-form-urlencoded":
        [text] = parse_qs(text, strict_parsing=True)[endpoint.profile.form_field]
    return parse(text, max_bytes=endpoint.limit)


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
        "once.webhooks.signature.KEPT_SECONDS", _FOR_EVER
    ),
    "the current secret alone": lambda: patch.object(SecretCache, "of", _current_alone),
    "the content type decides how a body is read": lambda: patch(
        "once.webhooks.webhook._data", _by_content_type
    ),
    "another type is a duplicate": lambda: patch.object(
        Profile, "has_signed_type", PropertyMock(return_value=True)
    ),
    "another type is another webhook": lambda: patch.object(
        Profile, "type_in_key", PropertyMock(return_value=True)
    ),
    "another topic is a conflict": lambda: patch.object(
        Profile, "type_in_key", PropertyMock(return_value=False)
    ),
    "an id that nobody signed is the key": lambda: patch.object(
        Profile, "has_signed_id", PropertyMock(return_value=True)
    ),
    "success whatever the ingress did": lambda: patch.object(
        WebhookIngress, "handle", _answered_first
    ),
    "success before the commit is sure": lambda: _ingress_with(lambda _: COMMITTED),
    "the dedup record before the capture": lambda: _committed_by(commits.claim_then_effect),
    "the capture before the dedup record": lambda: _committed_by(commits.effect_then_mark),
    "a record without its event": lambda: _committed_by(_without_outbox),
    "a capture that is written anew": lambda: patch.object(Capture, "item", _written_anew),
    "a forgery is captured, and refused": _captured_and_refused,
    "a conflict is dropped": lambda: _ingress_with(_conflict_dropped),
    "a duplicate is refused": lambda: _ingress_with(_duplicate_refused),
    "a body that may not be stored": lambda: patch.object(ClaimStore, "write", _ignored_failure),
}
