"""Watches over a run while the run goes on."""
