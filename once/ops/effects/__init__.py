"""The commands `effects`: list pending effects, settle those whose outcome a person has found out.

In: a dedup key, its SHA-256 or a dead letter's id, and the outcome. Out: a changed pending record,
which the next delivery completes.
"""
