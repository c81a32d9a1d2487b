"""Compiled inner loops of the online machines, imported on first use."""
