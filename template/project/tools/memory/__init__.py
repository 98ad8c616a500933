"""What a rank's device has to hold, said before the run."""
