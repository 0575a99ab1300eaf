"""Claim check: large data in S3, and events that carry a reference to it.

In: references and data. Out: objects of the deployment's claim-check bucket. Used by `intake` to
read data, and by `handlers` to store the data of published events before the commit.
"""
