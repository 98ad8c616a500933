"""Programs about a run, which a training run does not need: `python -m tools.preflight`."""
