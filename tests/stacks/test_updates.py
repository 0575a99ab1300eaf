"""Updates of a service, from one synthesized deployment to the next, by AWS's rules."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from once.cdk import (
    STRIPE,
    ConsumerProps,
    DeploymentConfig,
    Endpoint,
    ExistingTable,
    TableProps,
    WebhookProps,
    assemble,
)
from once.cdk.deployment_options import DEDUP
from once.cdk.topics import NO_EVENT
from once.names import EVENT_TYPE, RELAY, UNROUTED
from once.settings import RelaySettings, Settings, SweepSettings
from tests.stacks.booking_office import lines_in, registry_in
from tests.stacks.cloud import Cloud, environment, new_app, statements, without_packages
from tests.stacks.updates import (
    DESTROY,
    FEWER_CONSUMERS,
    NO_WEBHOOKS,
    RUNBOOK,
    Account,
    Stacks,
)

SEATS = TableProps("seats", "seat")
BOOKING = ConsumerProps(
    "booking",
    external=("seat.asked",),
    tables=(SEATS,),
    publishes=("seat.taken",),
    secrets=("printer_key",),
    claim_check_mb=5,
    sends_email=True,
    effect_timeout_seconds=3,
    batch_size=1,
)
OFFICE = replace(BOOKING, name="office", renamed_from="booking")
ARCHIVE = ConsumerProps(
    "archive",
    events=("seat.taken",),
    external=("hall.closed",),
    tables=(TableProps("log", "id"),),
    claim_check_mb=5,
    batch_size=1,
)
GATE = ConsumerProps(
    "gate", external=("gate.moved",), tables=(SEATS,), fifo=True, ordered_by="gate"
)
HOOKS = WebhookProps(
    endpoints=tuple(Endpoint(name, STRIPE, types=("paid",)) for name in ("stripe", "old"))
)
TABLE_ARN = "arn:aws:dynamodb:eu-west-1:111122223333:table"
RESTORED = {
    "seats": ExistingTable(f"{TABLE_ARN}/seats-restored"),
    DEDUP: ExistingTable(
        f"{TABLE_ARN}/dedup-restored",
        stream_arn=f"{TABLE_ARN}/dedup-restored/stream/2026-01-01T00:00:00.000",
    ),
}


@dataclass(frozen=True)
class Variant:
    """A service at one time."""

    lines: tuple[ConsumerProps, ...]
    webhooks: WebhookProps | None = HOOKS
    config: DeploymentConfig = field(default_factory=DeploymentConfig)


VARIANTS = {
    "whole": Variant((BOOKING, ARCHIVE, GATE)),
    # A second name, the last type of `external=`, an endpoint; a FIFO line retires.
    "first": Variant(
        (BOOKING, OFFICE, replace(ARCHIVE, external=()), replace(GATE, retiring=True)),
        replace(HOOKS, endpoints=HOOKS.endpoints[:1]),
    ),
    # The first name retires; without the FIFO line and every `claim_check_mb=`.
    "second": Variant(
        tuple(
            replace(each, claim_check_mb=0)
            for each in (
                replace(BOOKING, retiring=True),
                OFFICE,
                replace(ARCHIVE, external=()),
            )
        ),
        replace(HOOKS, endpoints=HOOKS.endpoints[:1]),
    ),
    # Without the first name and the webhooks; `external=` has a type again, and claims are back.
    "third": Variant((OFFICE, replace(ARCHIVE, external=("hall.opened",))), None),
    "restored": Variant(
        (BOOKING, ARCHIVE, GATE), config=DeploymentConfig(existing_tables=RESTORED)
    ),
}


class Variants:
    """The deployments, each synthesized once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Stacks] = {}

    def __getitem__(self, name: str) -> Stacks:
        if name not in self._made:
            self._made[name] = synthesized(self._folder / name, VARIANTS[name])
        return self._made[name]

    def cloud(self, name: str) -> Cloud:
        assert self[name]
        return Cloud(self._folder / name / "out")


def synthesized(folder: Path, variant: Variant) -> Stacks:
    registry = registry_in(folder, lines_in(folder / "functions", variant.lines))
    if variant.webhooks is not None:
        (folder / "functions" / "webhooks").mkdir()
        (folder / "functions" / "webhooks" / "handler.py").touch()
    with without_packages():
        app = new_app(folder / "out", email_sender="office@theatre.de")
        assemble(app, replace(registry, webhooks=variant.webhooks), variant.config)
        return [(each.stack_name, each.template) for each in app.synth().stacks]


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Variants:
    return Variants(tmp_path_factory.mktemp("updates"))


@pytest.fixture
def account(variants: Variants) -> Account:
    """An account with the whole service."""
    account = Account()
    account.deploy(variants["whole"])
    return account


def test_the_first_deployment_works(variants: Variants) -> None:
    assert Account().deploy(variants["whole"]) == []


def test_what_leaves_a_service_leaves_in_the_order_of_deployment(
    variants: Variants, account: Account
) -> None:
    for name, deletion in (("first", None), ("second", FEWER_CONSUMERS), ("third", NO_WEBHOOKS)):
        if deletion is not None:
            account.detach(deletion)
        found = account.deploy(variants[name])
        account.forget(deleted_by_hand() & {"Topic"})  # the last FIFO line leaves its topics
        there = {each.place for each in account.resources}
        assert [f for f in found if f.rule != "still-delivers" or f.place in there] == []


@pytest.mark.parametrize("line", ["booking", "office"])
def test_h1_both_lines_of_a_rename_have_the_first_name_in_keys_and_events(
    variants: Variants, line: str
) -> None:
    changing = variants.cloud("first")
    assert Settings.from_env(environment(changing, line)).consumer == "booking"
    leading = [
        statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for statement in statements(changing, line)
        if statement["Sid"] in ("WriteOwnRecordsInTransactions", "ReadOwnRecords")
    ]
    assert leading == [["booking#*"], ["booking#*"]]
    assert changing.service["Outputs"][f"Identity{line.capitalize()}"]["Value"] == "booking"
    # Relay and subscribers know one publisher.
    relay = RelaySettings.from_env(environment(changing, RELAY)).publishes
    assert relay["booking"] == BOOKING.publishes
    assert "office" not in relay
    archive = Settings.from_env(environment(changing, "archive"))
    assert archive.sources == {"seat.taken": ("/once/booking",)}


def test_a_retiring_line_finishes_its_messages_and_gets_none(variants: Variants) -> None:
    for name, line in (("first", "gate"), ("second", "booking")):
        changing = variants.cloud(name)
        found = changing.subscriptions(line, "Queue").values()
        assert found
        assert [each["FilterPolicy"] for each in found] == [{"type": [NO_EVENT]}] * len(found)
        assert changing.of(line, "Mapping")["EventSourceArn"] == changing.arn(line, "Queue")
    routes = SweepSettings.from_env(environment(variants.cloud("first"), UNROUTED)).routes
    assert "gate.moved" not in {event for types in routes.values() for event in types}
    assert not EVENT_TYPE.fullmatch(NO_EVENT)


def test_a_restored_table_takes_the_place_of_a_damaged_one(
    variants: Variants, account: Account
) -> None:
    assert account.deploy(variants["restored"]) == []
    role = account.of("once-service")["bookingRole3039424A"]
    assert all(table.arn in str(role.properties) for table in RESTORED.values())


@pytest.mark.parametrize("failed", [0, 1], ids=["state", "service"])
def test_a_creation_that_was_rolled_back_is_repeated(variants: Variants, failed: int) -> None:
    account, stacks = Account(), variants["whole"]
    account.deploy(stacks[:failed])
    found = account.fail_to_create(*stacks[failed])
    assert [each for each in found if each.rule == "protected"] == []
    found = account.deploy(stacks)
    assert [each for each in found if each.rule == "name-taken"] == []


def test_a_destroyed_service_is_deployed_again(variants: Variants, account: Account) -> None:
    account.detach(DESTROY)
    assert account.destroy(variants["whole"]) == []
    account.forget(deleted_by_hand())
    assert account.deploy(variants["whole"]) == []


COMMANDS = {
    "Subscription": "aws sns unsubscribe",
    "Topic": "aws sns delete-topic",
    "Queue": "aws sqs delete-queue",
    "EmailIdentity": "aws sesv2 delete-email-identity",
}


def deleted_by_hand() -> set[str]:
    """Return the types of what the runbook deletes after its stack."""
    _, _, section = RUNBOOK.read_text().partition("### Delete what was retained")
    section, _, _ = section.partition("\n## ")
    return {kind for kind, command in COMMANDS.items() if command in section}


def test_a_service_is_in_two_regions_of_an_account(variants: Variants, account: Account) -> None:
    assert account.deploy(variants["whole"], "us-east-1") == []
