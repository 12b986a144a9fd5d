"""Figures: functions from the numbers of a run to matplotlib Figures."""
