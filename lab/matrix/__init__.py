"""The matrix of approaches and faults.

In: the approaches, and the conformance kit. Out: a table, `reports/lab.json`, a picture for the
pages, and the story of a single cell.
"""
