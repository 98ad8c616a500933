"""Hours of a job on four hosts, to which things happen, without a person: what went into steps."""
