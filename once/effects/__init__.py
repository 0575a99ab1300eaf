"""Effects: takes a committed intent, calls the provider, and returns the outcome.

The ledger fences every change of a pending record with its owner's token. Used by `batch` between
the commit of the intent and the commit of the outcome, and by the operator's `once effects`.
"""
