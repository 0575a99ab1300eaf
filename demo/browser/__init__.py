"""A real browser on the console: the locked Chromium of npm, driven by Playwright.

In: a deployment in an embedded AWS. Out: the console's pages as a person sees them, and pictures
of them. Used by tests, and by the demo for the pictures in docs/img.
"""
