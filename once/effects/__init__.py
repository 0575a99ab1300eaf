"""Effects: a committed intent in; the outcome of one call to the outside world out.

The ledger fences every change of a pending record with the token of its owner. Used by `batch`
between the commit of the intent and the commit of the outcome.
"""
