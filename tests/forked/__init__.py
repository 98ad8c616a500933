"""A `python` for the PATH of tests: forked from a process that has imported torch already."""
