"""Drafters, one file a paper. `config.drafter.name` names the module."""
