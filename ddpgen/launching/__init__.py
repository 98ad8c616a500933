"""Sets of launch files, and sites: the answers that all users of a cluster share."""
