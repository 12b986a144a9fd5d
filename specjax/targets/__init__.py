"""Language models that score drafts, and their caches."""
