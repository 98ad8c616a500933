"""Which files here are no tests."""

collect_ignore = ["added"]  # files of a project, which a test puts into a copy of the template
