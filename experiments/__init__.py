"""Commands that measure; each is run as `python -m experiments.NAME`."""
