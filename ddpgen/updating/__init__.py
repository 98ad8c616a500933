"""What a newer version of the template changes in projects that are there."""
