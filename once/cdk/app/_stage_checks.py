"""Checks of the stages of a service. Each fault states its remedy."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from once.cdk.app.stage import Stage
from once.cdk.checks.account_options import account_option_faults, regions_of


def stage_faults(stages: Sequence[Stage]) -> list[str]:
    """Return every fault of the stages; an empty list without stages."""
    return [
        *(fault for each in stages for fault in _own_faults(each)),
        *_shared(Counter(each.name for each in stages), "name"),
        *_shared(Counter(each.config.service for each in stages), "service"),
    ]


def _own_faults(stage: Stage) -> Iterator[str]:
    if not re.fullmatch(r"\d{12}", str(stage.account)):
        yield f"stage {stage.name!r}: account={stage.account!r}; give a text of 12 digits"
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", str(stage.region)):
        yield f"stage {stage.name!r}: region={stage.region!r}; give a region, such as 'eu-west-1'"
    if account_option_faults(stage.config):
        return
    for option, region in regions_of(stage.config).items():
        if region != stage.region:
            yield (
                f"stage {stage.name!r}: {option} is in {region}, and the stage in {stage.region}; "
                "give the one of the stage's region"
            )


def _shared(counts: Counter[str], what: str) -> Iterator[str]:
    for value, count in counts.items():
        if count > 1:
            yield (
                f"{count} stages have the {what} {value!r}; give each its own: stacks and deployed "
                "names are told apart by it, and a value of the CDK context counts for every stage"
            )
