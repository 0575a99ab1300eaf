"""Sample orders: planned from a seed, and placed by callers that lose answers and repeat requests.

In: the numbers of requests and messages by kind. Out: requests to the shop's API, messages on its
topics, and a manifest of both. Used by the scenarios and by `python -m demo send`.
"""
