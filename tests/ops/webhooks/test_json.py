"""`--json` of the `webhooks` commands: the documented shape, and nothing else on stdout."""

import time

import pytest

from tests.ops.support import run
from tests.ops.test_json import WEBHOOKS, has_documented_shape
from tests.ops.webhooks.ingress import Webhooks, stripe
from tests.ops.webhooks.receiver import Receiver

ARGUMENTS = {
    "webhooks list": (),
    "webhooks show": ("evt_1",),
    "webhooks replay": ("evt_1", "--to-queue", "orders"),
    "webhooks send": ("stripe",),
    "webhooks listen": ("--since", "1h", "--to"),
}


def test_stdout_is_one_value_of_the_documented_shape(
    webhooks: Webhooks, gateway: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    assert set(ARGUMENTS) == WEBHOOKS
    webhooks.cloud.set_types("orders", events=["stripe.charge.refunded"])
    webhooks.receive(stripe())
    monkeypatch.setattr(time, "sleep", stop)  # the end of `listen`
    for command, arguments in ARGUMENTS.items():
        to = (gateway.url,) if command == "webhooks listen" else ()
        result = run(*command.split(), *arguments, *to, "--json")
        assert result.exit_code == 0, result.output
        assert has_documented_shape(command, result.stdout), result.output
