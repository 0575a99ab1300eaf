"""What the kit reads in a request to AWS."""

import json

import pytest

from redelivery.boundary.aws_requests import AwsRequest, Names

UPDATE = {"Update": {"TableName": "stock", "Key": {"sku": {"S": "tea"}}}}


@pytest.mark.parametrize("entry", [UPDATE, json.dumps(UPDATE).encode()])
def test_an_entry_of_a_transaction_may_be_encoded_by_the_handler(entry: object) -> None:
    names = Names({}, {"stock": ("sku",)})
    request = AwsRequest("dynamodb", "TransactWriteItems", {"TransactItems": [entry]}, names)
    assert request.touches == ("stock sku=tea",)
