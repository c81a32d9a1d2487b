"""Compiled inner loops of kernels on objects, imported on first use."""
