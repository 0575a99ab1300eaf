"""Check of a real AWS account: deploys a small service under a prefix, observes it, deletes it.

It has never run on real AWS. Tests run it against the embedded AWS and against made-up answers.

In: the number of the account that the credentials belong to. Out: `reports/verify.json`, and an
account without anything of the prefix. `checks` holds one check for each statement about AWS.
"""
