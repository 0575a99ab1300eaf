"""Records with a time to live, deleted as DynamoDB does."""

from redelivery.subject import Subject
from redelivery.world.resources import Clients, key_attributes


def delete_expired(subject: Subject, clients: Clients, now: float) -> None:
    """Delete the items whose time to live has passed.

    DynamoDB deletes "within a few days" of it, so that a record may still be there or not:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ttl-expired-items.html
    """
    for table in subject.tables:
        if table.ttl:
            own = clients.tables.Table(table.name)
            for item in own.scan(ConsistentRead=True)["Items"]:
                if item.get(table.ttl) is not None and float(item[table.ttl]) < now:
                    own.delete_item(Key={name: item[name] for name in key_attributes(table)})
