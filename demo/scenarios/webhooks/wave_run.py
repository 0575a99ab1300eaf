"""Wave run: sends the waves of a plan, carries over what was not accepted, rotates the secrets."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from demo.periodic_kills import kill_periodically
from demo.scenarios.webhooks.deliveries import Delivery
from demo.scenarios.webhooks.sender import Answered, Sender
from demo.scenarios.webhooks.simulated_days import move_back
from demo.scenarios.webhooks.webhook_plan import HOURS_BEFORE
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import DeployedWebhooks

_ROTATED_WAVE = 1
_KILL_SECONDS = 1.0
KILLS_PER_WAVE = 8
_LAST_ROUNDS = 3


@dataclass
class WaveRun:
    """Sends waves, in every wave but the last one while functions are killed.

    Attributes:
        aws: the AWS that the functions run on.
        ingress: the ingress.
        dedup_table: the physical name of the dedup table.
        functions: the names of the functions that are killed, by turns.
        random: draws the secrets.
        answers: the answers until now.
        killed: the number of function processes that were killed.
    """

    aws: EmbeddedAws
    ingress: DeployedWebhooks
    dedup_table: str
    functions: Sequence[str]
    random: Random
    answers: list[Answered] = field(default_factory=list)
    killed: int = 0

    def __post_init__(self) -> None:
        self._secrets: dict[str, str] = {}
        self._sender = Sender(self.aws, self.ingress.url, self._secrets)
        self._secretsmanager = self.aws.client("secretsmanager")
        self._dynamodb = self.aws.client("dynamodb")

    def send(self, waves: Sequence[Sequence[Delivery]]) -> None:
        """Send every wave. What a wave leaves over is sent with the next one, as providers do."""
        self._rotate()
        *waves, last = waves
        left: list[Delivery] = []
        for number, wave in enumerate(waves):
            self._pass_hours(HOURS_BEFORE[number])
            rotation = self._rotate if number == _ROTATED_WAVE else None
            left = self._send_under_kills([*left, *wave], rotation)
        self._pass_hours(HOURS_BEFORE[-1])
        left = self._post([*left, *last])
        for _ in range(_LAST_ROUNDS):
            left = self._post(left)
        self._sender.close()

    def _pass_hours(self, hours: int) -> None:
        if hours:
            move_back(self._dynamodb, (self.dedup_table, self.ingress.captures), hours)

    def _send_under_kills(
        self, wave: Sequence[Delivery], midway: Callable[[], object] | None
    ) -> list[Delivery]:
        functions, most = self.functions, KILLS_PER_WAVE
        with kill_periodically(self.aws, functions, period=_KILL_SECONDS, most=most) as kills:
            left = self._post(wave, midway)
        self.killed += kills.count
        return left

    def _post(
        self, wave: Sequence[Delivery], midway: Callable[[], object] | None = None
    ) -> list[Delivery]:
        """Send a wave; return the deliveries that the provider sends again."""
        answers = self._sender.send(wave, midway)
        self.answers += answers
        return [each.delivery for each in answers if not each.is_settled]

    def _rotate(self) -> None:
        """Store a new secret of each endpoint, with which the providers sign from then on."""
        secrets = {name: _secret(self.random) for name in self.ingress.secrets}
        for name, arn in self.ingress.secrets.items():
            self._secretsmanager.put_secret_value(SecretId=arn, SecretString=secrets[name])
        self._secrets.update(secrets)


def _secret(random: Random) -> str:
    return f"whsec_{base64.b64encode(random.randbytes(24)).decode()}"
