"""Options of the command line, as text, turned into a `Subject`.

In: texts. Out: the subject, or one `OptionMistakes` with every mistake and how to correct it.
"""
