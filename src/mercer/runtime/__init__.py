"""What a computation runs on: threads, the memory budget, and compiled code on disk."""
