"""Dense linear algebra under one name, for NumPy, torch and any array-API library.

NumPy arrays go through LAPACK in place, torch tensors through torch on their own device, other
arrays through the `linalg` extension of the array-API standard. float32 stays float32, and inputs
are left as they are unless ``overwrite=True`` says otherwise.
"""

from mercer.linalg.eigen import (
    Eigenpairs,
    eigen,
    is_negative,
    leading_eigenpairs,
    qr,
    symmetric_solve,
)
from mercer.linalg.factors import Factor, cholesky, triangular_solve
from mercer.linalg.matrices import shift_diagonal

__all__ = [
    "Eigenpairs",
    "Factor",
    "cholesky",
    "eigen",
    "is_negative",
    "leading_eigenpairs",
    "qr",
    "shift_diagonal",
    "symmetric_solve",
    "triangular_solve",
]
