"""The cache of secrets: how often it reads, and what counts while it cannot."""

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from once.testing.faults import inject, never_sent
from once.webhooks.signature import (
    KEPT_SECONDS,
    OUTAGE_SECONDS,
    REFRESH_SECONDS,
    SecretCache,
    Secrets,
    SecretsUnavailable,
)
from tests.once.webhooks.service import SECRET, Service, stripe_body, stripe_request

Version = str | bytes | Exception | None


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "secret-text"}}, "GetSecretValue")


class Manager:
    """Secrets Manager with one secret; `current` and `previous` are its versions or failures."""

    def __init__(self, current: Version = "one", previous: Version = None) -> None:
        self.versions = {"AWSCURRENT": current, "AWSPREVIOUS": previous}
        self.reads = 0

    def get_secret_value(self, *, SecretId: str, VersionStage: str) -> Mapping[str, Any]:  # noqa: N803
        assert SecretId == "arn"
        self.reads += VersionStage == "AWSCURRENT"
        match self.versions[VersionStage]:
            case None:
                raise refused("ResourceNotFoundException")
            case Exception() as error:
                raise error
            case bytes() as binary:
                return {"SecretBinary": binary}
            case text:
                return {"SecretString": text}


class Cached:
    """A cache over a manager, with a clock that stands still."""

    def __init__(self, *versions: Version) -> None:
        self.now = 1_800_000_000.0
        self.manager = Manager(*versions)
        self.cache = SecretCache(self.manager, {"stripe": "arn"}, lambda: self.now)

    def read(self, *, refreshed: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(self.cache.of("stripe", refreshed=refreshed))  # type: ignore[return-value]

    def fail(self, error: Version = None) -> None:
        self.manager.versions["AWSCURRENT"] = error or refused("InternalServiceError")


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("one",), (("one",), ())),
        (("new", "old"), (("new",), ("old",))),
        ((" a \r\n\n b\na\n", "c\n"), (("a", "b"), ("c",))),
        (("new", b"old"), (("new",), ())),
        (("new", '{"secret": "old"}'), (("new",), ())),
        (("new", " "), (("new",), ())),
    ],
)
def test_each_line_of_both_versions_is_a_secret(versions: Any, expected: Any) -> None:
    assert Cached(*versions).read() == expected


def test_secrets_are_read_again_when_they_are_old() -> None:
    cached = Cached()
    for seconds, reads in ((0, 1), (KEPT_SECONDS - 1, 1), (1, 2), (KEPT_SECONDS - 1, 2)):
        cached.now += seconds
        cached.read()
        assert cached.manager.reads == reads


def test_a_flood_of_forged_requests_reads_a_secret_every_five_seconds() -> None:
    service = Service()
    counts: list[str] = []

    def count(**_: Any) -> None:
        counts.append("read")

    hook = "before-call.secretsmanager.GetSecretValue"
    service.secretsmanager.meta.events.register(hook, count)
    for _ in range(60):
        assert service.post(stripe_request(stripe_body(), at=service.now, secret="other")) == 401
        service.now += 0.5
    service.secretsmanager.meta.events.unregister(hook, count)
    assert len(counts) == 2 * 30 / REFRESH_SECONDS  # two versions each time, for 30 seconds


def test_a_rotated_secret_counts_at_once_and_the_one_before_for_its_time() -> None:
    cached = Cached("old")
    cached.read()
    cached.manager.versions = {"AWSCURRENT": "new", "AWSPREVIOUS": "old"}
    cached.now += REFRESH_SECONDS
    assert cached.read() == (("old",), ())
    assert cached.read(refreshed=True) == (("new",), ("old",))


def test_a_request_with_a_rotated_secret_is_verified_at_once() -> None:
    service = Service()
    assert service.post(stripe_request(stripe_body("evt_1"))) == 200
    service.secretsmanager.put_secret_value(SecretId="stripe", SecretString="new")
    service.now += REFRESH_SECONDS
    for secret in ("new", SECRET):
        assert service.post(stripe_request(stripe_body(), at=service.now, secret=secret)) == 200


FAILURES: list[Any] = [
    refused("AccessDeniedException"),
    EndpointConnectionError(endpoint_url="https://a"),
    "",
]


@pytest.mark.parametrize(
    "failure", [*FAILURES, None, "  \n", b"binary", '{"secret": "x"}'], ids=repr
)
def test_without_a_secret_nothing_can_be_verified(failure: Any) -> None:
    cached = Cached(failure)
    for refreshed in (False, True):
        with pytest.raises(SecretsUnavailable) as error:
            cached.read(refreshed=refreshed)
    assert error.value.summary == f"SecretsUnavailable: {error.value}"
    assert "secret-text" not in error.value.summary
    assert cached.manager.reads == 1


def test_an_endpoint_without_a_secret_is_named() -> None:
    with pytest.raises(SecretsUnavailable, match="'other'"):
        Cached().cache.of("other")


def test_a_missing_previous_version_is_none_and_another_failure_is_no_secret() -> None:
    with pytest.raises(SecretsUnavailable, match="Throttling"):
        Cached("one", refused("ThrottlingException")).read()


def test_secrets_in_memory_count_while_they_cannot_be_read() -> None:
    cached = Cached("one")
    cached.read()
    cached.fail()
    cached.now += KEPT_SECONDS
    assert cached.read() == (("one",), ())
    cached.now += OUTAGE_SECONDS - 1
    assert cached.read() == (("one",), ())
    cached.now += 1
    with pytest.raises(SecretsUnavailable, match="InternalServiceError"):
        cached.read()


def test_secrets_in_memory_do_not_prove_a_forgery_while_they_cannot_be_read() -> None:
    cached = Cached("one")
    cached.read()
    cached.fail()
    cached.now += REFRESH_SECONDS - 1
    assert cached.read(refreshed=True) == (("one",), ())  # read a moment ago: they prove it
    cached.now += 1
    for _ in range(3):
        with pytest.raises(SecretsUnavailable):
            cached.read(refreshed=True)
    assert cached.manager.reads == 2


def test_a_failed_reading_is_tried_again_after_five_seconds() -> None:
    cached = Cached("one")
    cached.read()
    cached.fail()
    cached.now += KEPT_SECONDS
    for seconds, reads in ((0, 2), (REFRESH_SECONDS - 1, 2), (1, 3)):
        cached.now += seconds
        cached.read()
        assert cached.manager.reads == reads
    cached.fail("new")
    cached.now += REFRESH_SECONDS
    assert cached.read() == (("new",), ())


@pytest.mark.parametrize(("secret", "status"), [("old", 200), ("new", 503), ("forged", 503)])
def test_a_request_is_not_refused_for_good_while_its_secret_cannot_be_read(
    secret: str, status: int
) -> None:
    service = Service()
    service.secretsmanager.put_secret_value(SecretId="stripe", SecretString="old")
    service.post(stripe_request(b"{}", secret="old"))
    service.secretsmanager.put_secret_value(SecretId="stripe", SecretString="new")
    service.now += REFRESH_SECONDS
    with inject(service.secretsmanager, "GetSecretValue", *[never_sent()] * 9):
        assert service.post(stripe_request(stripe_body(), at=service.now, secret=secret)) == status


def test_nothing_shows_a_secret() -> None:
    cached = Cached("shown-one", "shown-two")
    secrets = cached.cache.of("stripe")
    for value in (secrets, cached.cache, *cached.cache._kept.values(), [secrets]):
        assert "shown" not in f"{value!r}{value}"
    assert Secrets(("a",)).previous == ()
