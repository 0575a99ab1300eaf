"""Draws the parts of the pages that follow from the code and the templates: `make redraw`."""
