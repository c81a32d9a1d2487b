"""The GPU execution: Triton code from the same programs, tensors of torch in and out.

`elementary` holds the functions a program may call, `source` writes the code of a program,
`operands` brings points into the form the code reads and decides how distances are obtained,
`product` launches it, `blocks` computes in plain torch what has no program.
"""
