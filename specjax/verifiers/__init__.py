"""Acceptance rules, one file each. `config.verifier.name` names the module."""
