"""Kernels on graphs: labels that take in their neighbours, paths, graphlets and walks."""
