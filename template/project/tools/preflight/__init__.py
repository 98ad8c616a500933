"""Checks before a long job."""
