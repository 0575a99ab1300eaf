"""Limits of a check: what a pass does not mean."""

LIMITS = (
    "The expectation is the handler's own clean run. A handler that is wrong without any fault "
    "passes.",
    "Each scenario has one fault. Two faults in one delivery are not tried.",
    "The messages are those you gave, and one derived from them. Other messages may take "
    "another path through the handler.",
    "Faults take place at calls through botocore, urllib3 (requests), httpx and the methods you "
    "declared. Other drivers, and botocore's asynchronous clients, are not intercepted.",
    "AWS is simulated by moto: no IAM, quotas, cold regions or eventually consistent reads.",
    "Invocations in parallel change places at calls only. A race between two lines of Python is "
    "not seen.",
    "Records with a time to live, and attributes that differ between two clean runs, are not "
    "compared.",
    "HTTP answers are yours. A provider that forgets an idempotency key within the time you "
    "assume is not simulated, except for the 24 hours after which a key is forgotten.",
)
"""One fact each. The page of the distribution lists them as well."""
