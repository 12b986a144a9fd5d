"""Configs: data only, one `get_config()` a file."""
