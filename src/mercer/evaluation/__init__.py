"""Computing kernels: one definition, several executions.

A kernel expression is lowered to a small program (`program`), which runs as plain NumPy
(`reference`) or as compiled tiles on the CPU (`cpu`). Kernels without a program give blocks
(`blocks`). `dispatch` chooses; `tiling` walks over the matrix within a memory budget.
"""
