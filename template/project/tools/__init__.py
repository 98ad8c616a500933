"""The parts of preflight.py, memory.py and scaling.py, which a training run does not need."""
