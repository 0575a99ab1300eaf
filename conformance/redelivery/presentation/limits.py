"""Limits of a check: what a pass does not mean."""

LIMITS = (
    "The expectation is the handler's own clean run. A handler that is wrong without any fault "
    "passes.",
    "Each scenario has one fault. Two faults in one delivery are not tried.",
    "The messages are your samples, and those derived from them. Another message may take "
    "another path through the handler.",
    "Faults take place at calls by boto3, urllib3, requests, httpx, urllib.request and the "
    "methods that you declared. A connection by another library ends the check with an error.",
    "moto simulates AWS: without IAM, quotas, eventually consistent reads and other services' "
    "triggers.",
    "Parallel invocations change over at calls only. A race between two lines of Python is not "
    "seen.",
    "Tables with a time to live, and attributes that differ between two clean runs, are not "
    "compared.",
    "HTTP answers are yours. Calls with one Idempotency-Key count once for 24 hours, as with "
    "Stripe; your provider may differ.",
)
"""One fact each. The page of the distribution lists them as well."""
