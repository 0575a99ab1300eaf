"""The duplicate-orders lab: one consumer in each known way to process a message once, under faults.

In: `approaches`, one small file for each way. Out: a matrix of approaches and faults, with the
conformance kit's verdict in each cell.
"""
