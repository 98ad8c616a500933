"""The template as git fetches it: where it is, and the bundles of its releases."""
