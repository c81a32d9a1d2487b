"""The GPU execution: Triton code from the same expressions, tensors of torch in and out.

`plan` has the forms in which pair numbers are obtained, `operands` chooses among them and brings
points into them by `packing`, `source` prints the code with the functions of `elementary`,
`product` launches it, `blocks` computes in plain torch what has no expression.
"""
