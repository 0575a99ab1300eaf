"""The commands `new consumer`, `new command` and `new service`: files to begin with.

In: a name, and the project's `[tool.once]` in pyproject.toml. Out: handler, tests and registry line
of a consumer or of commands, or a whole service. A command writes all of its files or none.
"""
