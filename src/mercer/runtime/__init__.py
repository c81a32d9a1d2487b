"""Resources of a computation: threads, the memory budget, and compiled code on disk."""
