"""The example shop as one service: its consumers, commands and webhooks, and the files of both."""

from once.cdk import Registry
from stacks.consumers import COMMANDS, CONSUMERS
from stacks.folders import FUNCTIONS, ROOT
from stacks.webhooks import WEBHOOKS

REGISTRY = Registry(
    CONSUMERS,
    file=ROOT / "stacks" / "consumers.py",
    functions=FUNCTIONS,
    deployed=ROOT / "stacks" / "deployed.json",
    commands=COMMANDS,
    webhooks=WEBHOOKS,
    webhooks_file=ROOT / "stacks" / "webhooks.py",
)
