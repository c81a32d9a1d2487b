"""Preconditioners of conjugate gradients: columns of K on all points, sampled rows on centres.

`low_rank` has the first kind. `sampled_hessian` has the forms of the second, `sampling` the rows it
is made of, and `memory` what a solution on centres takes.
"""
