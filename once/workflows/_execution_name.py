"""Execution name: derived from the provider key, so that it is the same in every attempt."""

from once.workflow_names import EXECUTION_PREFIX

_HASH_DIGITS = 56
"""With prefix, hyphen and two digits 64 characters, the longest name of a durable execution.

Step Functions takes 80. A provider key gets another number only if a person gives it one.
"""


def execution_name(provider_key: str) -> str:
    """Return the name of the execution for a provider key: letters, digits and hyphens.

    It is `once-`, the first 56 digits of the key hash, and the number of the provider key. The
    effect's name is left out: an event has one effect.
    """
    _, key_hash, *_, number = provider_key.split("-")
    return f"{EXECUTION_PREFIX}{key_hash[:_HASH_DIGITS]}-{number}"
