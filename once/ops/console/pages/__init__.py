"""Pages of the console: each module has the routes of one page, in `ROUTES`."""
