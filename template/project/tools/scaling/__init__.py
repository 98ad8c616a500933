"""The scaling of a training, measured and predicted."""
