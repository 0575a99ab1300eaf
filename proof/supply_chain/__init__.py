"""Audit of everything that the project ships or runs on: `make audit`.

In: the lock files, the virtual environments and the files that git tracks. Out:
`reports/audit.json`, and a bill of materials for the wheel and for each function's package.
"""
