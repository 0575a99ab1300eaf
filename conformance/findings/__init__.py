"""Checks of public handlers: the kit, run against code that is not part of this project.

In: a folder with clones of public repositories, each at the commit that `handlers` names. Out: a
table and a JSON file with what a check of each handler found. Nothing of their code is kept here.
"""
