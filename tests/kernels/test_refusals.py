"""Each refusal is a ValueError that says what came and what to write; each text is tested."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import markets
from mercer.kernels import (
    BlockKernel,
    Constant,
    Gaussian,
    Linear,
    Matern,
    PairKernel,
    Polynomial,
    Precomputed,
)

X = markets.normal(4, 2)
NAN = np.array([[0.0], [np.nan]])
FRAME = markets.Frame({"a": X[:, 0], "b": X[:, 1]})
MATRIX = Precomputed(np.eye(3))

REFUSALS = {
    # parameters
    "negative scale": (
        lambda: -1.0 * Gaussian(),
        r"Scaled needs a finite scale ≥ 0; got -1\.0: a negative multiple of a kernel is "
        r"not positive definite; to subtract functions, write f - g",
    ),
    "scale nan": (lambda: float("nan") * Gaussian(), "finite scale ≥ 0; got nan"),
    "scale inf": (lambda: float("inf") * Gaussian(), "finite scale ≥ 0; got inf"),
    "scale bool": (lambda: True * Gaussian(), "finite scale ≥ 0; got True"),
    "negative constant": (lambda: Gaussian() + -1.0, "a negative constant is not a kernel"),
    "constant text": (lambda: Constant("1"), "finite value ≥ 0; got '1'"),
    "bias": (lambda: Linear(-0.5), r"Linear needs a finite bias ≥ 0; got -0\.5"),
    "polynomial bias": (
        lambda: Polynomial(2, -1.0),
        "Polynomial needs a finite bias ≥ 0.* not positive definite in general",
    ),
    "lengthscale zero": (
        lambda: Gaussian(0.0),
        r"Gaussian needs a finite lengthscale > 0; got 0\.0\. Write for example "
        r"Gaussian\(lengthscale=1\.0\)",
    ),
    "lengthscale negative": (lambda: Matern(1.5, -2.0), "Matern needs a finite lengthscale > 0"),
    "lengthscale inf": (lambda: Gaussian(np.inf), "finite lengthscale > 0; got inf"),
    "lengthscale nan": (lambda: Gaussian(np.nan), "finite lengthscale > 0; got nan"),
    "lengthscale text": (lambda: Gaussian("long"), "finite lengthscale > 0; got 'long'"),
    "lengthscale None": (lambda: Gaussian(None), "finite lengthscale > 0; got None"),
    "lengthscales zero": (
        lambda: Gaussian([1.0, 0.0]),
        r"finite lengthscales > 0; got \[1\.0, 0\.0\]\. To leave a column out, write "
        r"kernel\.on\(columns\)",
    ),
    "lengthscales nan": (lambda: Matern(0.5, [np.nan]), "finite lengthscales > 0"),
    "lengthscales empty": (lambda: Gaussian([]), "one lengthscale, or a list with one for each"),
    "lengthscales matrix": (lambda: Gaussian(np.eye(2)), "one lengthscale, or a list"),
    "lengthscales count": (
        lambda: Gaussian([1.0, 2.0, 3.0])(X),
        "3 lengthscales were given for points with 2 columns: give one lengthscale, or one for "
        "each column",
    ),
    "lengthscales count on columns": (
        lambda: Gaussian([1.0, 2.0]).on([0])(X),
        "2 lengthscales were given for points with 1 columns",
    ),
    "smoothness": (lambda: Matern(0.0), "Matern needs a finite smoothness > 0; got 0.0"),
    "smoothness large": (
        lambda: Matern(51.0),
        r"smoothness of at most 50; got 51\.0\. .* write Gaussian\(lengthscale\)",
    ),
    "degree zero": (
        lambda: Polynomial(0),
        "Polynomial needs a whole number degree ≥ 1; got 0",
    ),
    "degree fraction": (lambda: Polynomial(2.5), "whole number degree ≥ 1; got 2.5"),
    "degree bool": (lambda: Polynomial(True), "whole number degree ≥ 1; got True"),
    "no such parameter": (
        lambda: Gaussian().with_(length=1.0),
        r"Gaussian has no parameter 'length'; it has \['lengthscale'\]",
    ),
    # columns
    "no columns": (lambda: Gaussian().on([]), r"a list with at least one column; got \(\)"),
    "half a column": (lambda: Gaussian().on([0.5]), r"numbers or names; got 0\.5\. Write for "),
    "bool column": (lambda: Gaussian().on([True]), "columns are numbers or names; got True"),
    "column number": (
        lambda: Gaussian().on(2)(X),
        "column 2 does not exist: the points have 2 columns, numbered 0 to 1",
    ),
    "negative column number": (lambda: Gaussian().on(-3)(X), "column -3 does not exist"),
    "column name": (
        lambda: Gaussian().on("c")(FRAME),
        r"column 'c' does not exist; there are \['a', 'b'\]",
    ),
    "column name beside all columns": (
        lambda: (Gaussian() + Linear().on("c"))(FRAME),
        r"column 'c' does not exist; there are \['a', 'b'\]",
    ),
    "name without names": (
        lambda: Gaussian().on("a")(X),
        "column 'a' was asked for by name, but the points are an array without names: pass a "
        "DataFrame, or select columns by number",
    ),
    # points
    "nan": (lambda: Gaussian()(NAN), "the points contain NaN: remove those rows, or fill"),
    "infinity": (lambda: Gaussian()([[np.inf]]), "the points contain infinity"),
    "both infinities": (lambda: Gaussian()([[np.inf], [-np.inf]]), "the points contain infinity"),
    "sparse nan": (lambda: Gaussian()(scipy.sparse.csr_array(NAN)), "the points contain NaN"),
    "one dimension": (
        lambda: Gaussian().gram(np.ones(3)),
        r"two-dimensional array, one row for each point; got shape \(3,\)\. Write "
        r"X\.reshape\(-1, 1\)",
    ),
    "three dimensions": (
        lambda: Gaussian().gram(np.ones((3, 2, 2))),
        r"got shape \(3, 2, 2\)\. Flatten the other dimensions",
    ),
    "texts": (lambda: Gaussian().gram([["a"], ["b"]]), "points must be numbers; got an array of"),
    "ragged rows": (lambda: Gaussian().gram([[1.0], [1.0, 2.0]]), "rows of equal length"),
    "complex": (lambda: Gaussian().gram([[1j]]), "points must be numbers; got .*complex"),
    "width": (
        lambda: Gaussian().gram(X, np.ones((2, 3))),
        "both sides must have the same number of columns; got 2 and 3",
    ),
    "width of a pair": (lambda: Gaussian()([1.0], [1.0, 2.0]), "number of columns; got 1 and 2"),
    "one text for many": (
        lambda: PairKernel(markets.common_letters).gram("kernel"),
        "a sequence of points; got the single text 'kernel'",
    ),
    "vectors and words": (
        lambda: PairKernel(markets.common_letters).gram(["a"], [[1.0]]),
        "points of one kind; got ObjectPoints and DensePoints",
    ),
    "kernels on different points": (
        lambda: (MATRIX + PairKernel(markets.common_letters)).gram([0, 1]),
        "different kinds of points|two-dimensional",
    ),
    # functions and matrices of users
    "not a function": (
        lambda: PairKernel(3),
        "PairKernel needs a function of two arguments; got 3",
    ),
    "block of a wrong shape": (
        lambda: BlockKernel(lambda X, Y: np.ones(3)).gram(X) @ np.ones(4),
        r"returned a block of shape \(3,\) for 4 and 4 points: it must return one value for each "
        r"pair, shape \(4, 4\)",
    ),
    "block of nan": (
        lambda: BlockKernel(lambda X, Y: np.full((len(X), len(Y)), np.nan))(X),
        "returned NaN or infinity: check the function on these points",
    ),
    "matrix of one dimension": (
        lambda: Precomputed(np.ones(3)),
        r"two-dimensional matrix of numbers; got shape \(3,\)",
    ),
    "sparse matrix": (lambda: Precomputed(scipy.sparse.eye_array(2)), r"write matrix\.toarray\(\)"),
    "matrix with nan": (lambda: Precomputed(NAN), "Precomputed needs finite values"),
    "vectors for a matrix": (
        lambda: MATRIX.gram(np.eye(3)),
        r"row numbers, a list of integers; got shape \(3, 3\) of float64\. Write "
        r"kernel\.gram\(range\(n\)\)",
    ),
    "row numbers too large": (lambda: MATRIX.gram([0, 3]), "between 0 and 2; got 0 to 3"),
    "row numbers negative": (lambda: MATRIX.gram([-1, 1]), "between 0 and 2; got -1 to 1"),
    # products
    "too few values": (
        lambda: Gaussian().gram(X) @ np.ones(3),
        r"a Gram matrix of shape \(4, 4\) needs values with 4 rows here; got shape \(3,\)",
    ),
    "values of three dimensions": (
        lambda: Gaussian().gram(X) @ np.ones((4, 1, 1)),
        r"got shape \(4, 1, 1\)",
    ),
    "a scalar": (lambda: Gaussian().gram(X) @ 2.0, r"got shape \(\)"),
    "complex values": (
        lambda: Gaussian().gram(X) @ np.full(4, 1j),
        "real numbers in at most float64; got complex",
    ),
    "shift of a wrong length": (
        lambda: Gaussian().gram(X, X[:2]).normal_matmul(np.ones(2), np.ones(2)),
        "values with 4 rows here",
    ),
    "memory": (
        lambda: Gaussian().gram(X, memory="lots") @ np.ones(4),
        "a text like '500MB' or '2GB'; got 'lots'",
    ),
    "no memory": (lambda: Gaussian().gram(X, memory=0) @ np.ones(4), "memory must be positive"),
    "diagonal of a rectangle": (
        lambda: Gaussian().gram(X, X[:2]).diagonal(),
        r"only kernel\.gram\(X\), with the same points twice, has a diagonal",
    ),
    # functions of the space
    "coefficients": (
        lambda: Gaussian().function(X, [1.0]),
        r"one number \(or one row\) for each of the 4 centres; got shape \(1,\)",
    ),
    "coefficients nan": (
        lambda: Gaussian().function(X, [1.0, np.nan, 0.0, 0.0]),
        "coefficients must be finite",
    ),
    "different spaces": (
        lambda: Gaussian().function(X, np.ones(4)) + Linear().function(X, np.ones(4)),
        r"functions of different spaces do not mix: one has the kernel Gaussian\(lengthscale=1",
    ),
    "different spaces, inner product": (
        lambda: Gaussian().function(X, np.ones(4)).inner(Gaussian(2.0).function(X, np.ones(4))),
        "functions of different spaces do not mix",
    ),
    "different outputs": (
        lambda: Gaussian().function(X, np.ones(4)) + Gaussian().function(X, np.ones((4, 2))),
        "the same outputs; got 1 and 2",
    ),
    "output of one": (lambda: Gaussian().function(X, np.ones(4)).output(0), "has one output"),
    "gradient without an expression": (
        lambda: BlockKernel(markets.laplace_block).function(X, np.ones(4)).gradient(X),
        "has no known derivative: gradients need kernels on vectors",
    ),
    "gradient of sparse points": (
        lambda: Gaussian().function(X, np.ones(4)).gradient(scipy.sparse.csr_array(X)),
        r"gradients of sparse points are dense: pass X\.toarray\(\)",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name):
    attempt, text = REFUSALS[name]
    with pytest.raises(ValueError, match=text):
        attempt()


def test_nan_in_a_memory_map_is_refused_when_it_is_read(tmp_path):
    gram = Gaussian().gram(markets.memory_map(tmp_path, NAN))
    with pytest.raises(ValueError, match="the points contain NaN"):
        gram @ np.ones(2)


def test_nan_in_a_memory_map_beside_sparse_points(tmp_path):
    gram = Gaussian().gram(
        scipy.sparse.csr_array(np.ones((1, 1))), markets.memory_map(tmp_path, NAN)
    )
    with pytest.raises(ValueError, match="the points contain NaN"):
        gram @ np.ones(2)


def test_matrices_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr("mercer.evaluation.tiling.free_memory", lambda: 10)
    Gaussian().gram(X).dense()  # of a small one nobody asks
    with pytest.raises(MemoryError, match=r"a dense matrix of 1200 × 1200 .* multiply by the Gram"):
        Gaussian().gram(np.zeros((1200, 2))).dense()
