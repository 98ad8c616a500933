"""How training scales, measured and predicted."""
