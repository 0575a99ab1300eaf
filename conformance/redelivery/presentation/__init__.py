"""Presentation: a report as text for people, and as JSON for programs.

In: a `Report`. Out: its verdict, a table of faults, the course of failing scenarios, differences
by call site. Text of messages and of the handler is escaped. Used by the command line and pytest.
"""
