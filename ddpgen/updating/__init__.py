"""Projects that are there: what they record, and how they follow newer versions and answers."""
