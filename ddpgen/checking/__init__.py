"""`ddpgen check`: reads training programs and launch scripts, and reports pitfalls of DDP.

It knows nothing of templates and runs nothing of what it reads. `registry` holds the one table of
rules, `rules/` finds the places, `driver` reads and selects, `reporter` writes.
"""
