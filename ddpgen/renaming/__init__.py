"""What versions of the template moved and renamed, and how Python files follow."""
