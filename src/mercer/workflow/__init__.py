"""From a table to a model: one call."""
