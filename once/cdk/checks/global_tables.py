"""Checks of the replicas of tables in several Regions: combinations that lose or double changes.

The rules are those of docs/regions.md. Each fault states its remedy.
"""

import re
from collections.abc import Iterator, Sequence

from once.cdk.checks import faults_where
from once.cdk.deployment_options import DEDUP, EVENTUAL, STRONG, DeploymentConfig, GlobalTables
from once.cdk.props import ConsumerProps, Line, WebhookProps, named
from once.names import explained_by
from once.settings import Dedup

_PAGE = explained_by("regions")
_STRONG_SETS = (
    ("us-east-1", "us-east-2", "us-west-2"),
    ("eu-west-1", "eu-west-2", "eu-west-3", "eu-central-1"),
    ("ap-northeast-1", "ap-northeast-2", "ap-northeast-3"),
)
"""The sets of Regions of strongly consistent tables (AWS::DynamoDB::GlobalTable, witness)."""


def global_table_faults(config: DeploymentConfig) -> Iterator[str]:
    """Yield the faults of `global_tables` alone, all of the right types."""
    tables, key = config.global_tables, config.keys.tables
    if tables is None:
        return
    regions, witness, is_strong = tables.regions, tables.witness, tables.consistency == STRONG
    every = {*regions, *filter(None, [witness])}
    yield from faults_where(
        {
            f"global_tables has the regions {regions!r}; give two or more, each once, such as "
            "('eu-west-1', 'eu-central-1')": len({*regions}) < max(2, len(regions))
            or not all(re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", each) for each in regions),
            f"global_tables has consistency={tables.consistency!r}; use one of {EVENTUAL}, "
            f"{STRONG}": tables.consistency not in {EVENTUAL, STRONG},
            f"global_tables has witness={witness!r}, which only strongly consistent tables have; "
            "leave it out": witness and not is_strong,
            "global_tables: strongly consistent tables have three Regions, or two and a witness, "
            f"of one of the sets {_STRONG_SETS}": is_strong
            and not (len(every) == 3 and any(every <= {*each} for each in _STRONG_SETS)),
            "keys.tables is a key of one Region, which replicas elsewhere cannot use; give a "
            "multi-Region key (key/mrk-…) with a replica in each Region of global_tables": key
            and "key/mrk-" not in key.arn,
        }
    )


def replica_faults(
    config: DeploymentConfig, lines: Sequence[Line], region: str | None
) -> Iterator[str]:
    """Yield the faults of lines with replicas, which the stage's `region` makes or takes."""
    tables = config.global_tables
    if tables is None and config.standby and not config.local:
        yield (
            "standby: the kind of its tables is not known, and with it what a failover loses; give "
            f"global_tables=GlobalTables(regions=…, consistency=…) as in the other Region ({_PAGE})"
        )
    if tables is not None and region is not None and region not in tables.regions:
        yield f"global_tables has no replica in {region}, the Region of the stage; add it"
    for line in lines:
        if config.standby or tables is not None:
            yield from _own_table_faults(config, line, region)
        if tables is not None:
            yield from _commit_faults(config, line, tables)


def _own_table_faults(config: DeploymentConfig, line: Line, region: str | None) -> Iterator[str]:
    """Yield the tables that the stack would make beside the global ones, without their items."""
    tables = config.global_tables
    if tables is not None and region == tables.regions[0]:
        return
    names = [] if isinstance(line, WebhookProps) else [table.name for table in line.tables]
    if _has_records(line):
        names.append(DEDUP)
    for name in sorted({*names} - config.existing_tables.keys()):
        yield (
            f"{named(line)} would get a table {name!r} of its own, without what other Regions "
            f"have committed; name the replica in existing_tables[{name!r}]: the stage of the "
            f"first Region of global_tables makes it ({_PAGE})"
        )


def _commit_faults(config: DeploymentConfig, line: Line, tables: GlobalTables) -> Iterator[str]:
    """Yield the combinations with which a commit is refused, or is not one thing to replicate."""
    has_records, is_strong = _has_records(line), tables.consistency == STRONG
    in_groups = isinstance(line, ConsumerProps) and config.adapt(line).group_size > 1
    yield from faults_where(
        {
            f"{named(line)} commits in transactions, which strongly consistent global tables "
            "refuse; give a consumer dedup=Dedup.ITEM and group_size=1, or the tables "
            f"consistency={EVENTUAL!r} ({_PAGE})": is_strong and (has_records or in_groups),
            f"{named(line)}: its dedup record and its changes are replicated apart, so that "
            "changes of the last lag before the loss of a Region may be missing, or be made twice; "
            "use dedup=Dedup.ITEM, or accept it with GlobalTables(accept_split_commits=True) "
            f"({_PAGE})": has_records and not is_strong and not tables.accept_split_commits,
        }
    )


def _has_records(line: Line) -> bool:
    return not isinstance(line, ConsumerProps) or line.dedup is not Dedup.ITEM
