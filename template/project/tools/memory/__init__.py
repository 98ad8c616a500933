"""The need of memory of a rank's device, computed before the run."""
