"""Sets of launch files, and what a cluster's users need not type."""
