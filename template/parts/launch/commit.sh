# An image has no git: the first lines of a run name the commit by this variable.
PROJECT_COMMIT=$({ git ls-files --error-unmatch train.py >/dev/null && git describe --always --dirty --abbrev=12 --exclude='*'; } 2>/dev/null || true)
export PROJECT_COMMIT
