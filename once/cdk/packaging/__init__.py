"""Builds the folder that becomes a function's code.

In: a handler's folder and lock files. Out: a staged folder with wheels, library and bytecode.
Used by `once.cdk._lambda_function`. A package that cannot be built raises `SynthError`.
"""
