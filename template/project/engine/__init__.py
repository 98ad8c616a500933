"""The machinery of a training: processes, devices, data, state and reports."""
