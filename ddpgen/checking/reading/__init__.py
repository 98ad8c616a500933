"""What rules read: files, the programs that they are part of, and what follows from both."""
