"""The operator's command line: `python -m ops …`, against AWS or an embedded one."""
