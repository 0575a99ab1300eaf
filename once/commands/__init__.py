"""Commands: requests whose callers wait for an answer, each with one effect and one answer.

In: a command's name, data, key and scope, from any code or from HTTP. Out: one transaction with the
writes, the dedup record, the answer and the events; or the stored answer of an earlier request.
"""
