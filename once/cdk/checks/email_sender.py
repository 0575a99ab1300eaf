"""Check of the address that e-mail comes from: SES must be able to verify it."""

import re

from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps

RESERVED_SENDER = "once:reserved-sender"
"""Id of the warning."""

_RESERVED = re.compile(r"(.*[@.])?(example\.(com|net|org)|example|invalid|localhost|test)")
"""Domains reserved for documentation and tests (RFC 2606)."""


def reserved_sender(props: ConsumerProps, config: DeploymentConfig) -> str | None:
    """Return a warning, with its remedy, if SES would refuse each e-mail of a consumer.

    None on the embedded AWS, which accepts every address.
    """
    sender = config.email_sender
    if config.local or not props.sends_email or not _RESERVED.fullmatch(sender.lower()):
        return None
    return (
        f"email_sender={sender!r} is an address for documentation (RFC 2606), which SES cannot "
        "verify: it refuses each e-mail of this consumer. Give an address of yours, "
        "-c email_sender=…, and confirm it with the link that SES sends there. In SES's "
        "sandbox each recipient must be verified as well"
    )
