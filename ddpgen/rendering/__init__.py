"""Projects, as a version of the template and a set of answers give them."""
