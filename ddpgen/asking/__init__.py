"""The questions of the template, and their answers: from flags, files, a terminal, this machine."""
