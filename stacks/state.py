"""The stack of state: what must survive any deployment of code."""

from collections.abc import Iterable, Mapping
from typing import Any

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from once.contract import Record
from stacks.registry import Consumer, Table, words

DEDUP = "dedup-records"
"""Construct id of the dedup table. It and the tables' names make logical ids: renaming one of them
makes CloudFormation put an empty table in the place of the full one."""


class StateStack(Stack):
    """The dedup table and every business table of the registry.

    Tables are on demand, retained, protected from deletion and recoverable to any second of the
    last 35 days. Their physical names are generated, so that a restored table can take the place
    of a damaged one.
    """

    def __init__(self, scope: Construct, name: str, consumers: Iterable[Consumer]) -> None:
        super().__init__(scope, name, description="Once: dedup records and business tables")
        self.dedup_table = self._make_table(
            DEDUP,
            (Record.PK,),
            time_to_live_attribute=Record.EXPIRES_AT,
            # The relay tells a commit from a mere update by what stood there before.
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
        )
        CfnOutput(self, "DedupTable", value=self.dedup_table.table_name)
        self._tables = {
            table.name: self._make_table(table.name, table.keys) for table in _union(consumers)
        }
        for table_name, table in self._tables.items():
            CfnOutput(self, f"Table{words(table_name)}", value=table.table_name)

    def tables_of(self, consumer: Consumer) -> Mapping[str, dynamodb.ITable]:
        """Return the tables that this consumer writes, by the name its handlers use."""
        return {table.name: self._tables[table.name] for table in consumer.tables}

    def _make_table(self, name: str, keys: tuple[str, ...], **extra: Any) -> dynamodb.Table:
        partition, *sort = (
            dynamodb.Attribute(name=key, type=dynamodb.AttributeType.STRING) for key in keys
        )
        return dynamodb.Table(
            self,
            name,
            partition_key=partition,
            sort_key=sort[0] if sort else None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
            **extra,
        )


def _union(consumers: Iterable[Consumer]) -> list[Table]:
    return list(dict.fromkeys(table for consumer in consumers for table in consumer.tables))
