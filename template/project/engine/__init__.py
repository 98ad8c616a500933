"""The machinery of a training: who sees what, process groups, state, checkpoints, reports."""
