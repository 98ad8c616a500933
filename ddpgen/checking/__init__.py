"""`ddpgen check`: reads training programs and launch scripts, and reports pitfalls of DDP.

It knows nothing of templates and runs nothing of what it reads. `reading/` knows files and
programs, `rules/` finds the mistakes in them and fills the table of `registry`, `driver` applies
the table, `reporter` writes.
"""
