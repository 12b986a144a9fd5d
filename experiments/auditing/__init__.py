"""What the audit is made of: laws, draws, and how far apart they are."""
