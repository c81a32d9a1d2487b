"""Random objects to every kernel on objects: the value of its definition, or a refusal in words."""

from __future__ import annotations

import numpy as np
import scipy.sparse

import mercer
import structured_oracles as oracles
from mercer.features import ExplicitFeatures, MinHash
from mercer.kernels import Gaussian
from mercer.structured import (
    AllSubsequences,
    BlendedSpectrum,
    CommonSubsequences,
    EditSimilarity,
    EmpiricalMap,
    GapWeighted,
    GaussianOfMeans,
    GlobalAlignment,
    Graphlets,
    Intersection,
    Jaccard,
    MeanMap,
    MismatchSpectrum,
    PartialTrees,
    PropagatedAttributes,
    RandomWalk,
    ShortestPath,
    Spectrum,
    SubsetTrees,
    Subtrees,
    Text,
    VisualWords,
    WeightedDegree,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
    WildcardSpectrum,
)


def of(features):
    """The Gram matrix of explicit features, by definition."""
    return lambda X: oracles.gram(features, X)


def of_pairs(value):
    return lambda X: np.array([[value(x, y) for y in X] for x in X], float)


def shared(x, y):
    return float(len(set(x) & set(y)))


def share(x, y):
    return shared(x, y) / len(set(x) | set(y)) if set(x) | set(y) else 1.0


def unlike(x, y):
    return np.exp(-oracles.edit_distance(x, y) / 3.0)


# ---- what is drawn -------------------------------------------------------------------------------


def text(random):
    return "".join(random.choice(list("abc"), random.integers(0, 7)))


def long_text(random):
    return " ".join(random.choice(["kernel", "space", "", "of"], random.integers(0, 6)))


def bag(random):
    return random.standard_normal((random.integers(0, 4), 2))


def series(random):
    return random.standard_normal(random.integers(0, 5))


def tree(random, depth=3):
    if random.random() < 0.1 and depth == 3:
        return ()
    below = random.integers(0, 3) if depth else 0
    label = str(random.choice(["a", "b"]))
    return (label, *(tree(random, depth - 1) for _ in range(below)))


def graph(random):
    n = int(random.integers(0, 5))
    pairs = [(u, v) for v in range(n) for u in range(v)]
    edges = [pair for pair in pairs if random.random() < 0.5]
    return edges, random.choice(list("CN"), n).tolist()


def with_attributes(random):
    edges, labels = graph(random)
    return edges, labels, random.standard_normal((len(labels), 2))


def image(random):
    return random.random((random.integers(0, 9), random.integers(0, 9)))


def junk(random):
    """What does not belong there."""
    found = (None, 3, np.nan, b"ab", {"a": -1.0}, [], object(), "x" * 200, [[1, [2]]], ("a", 5, ()))
    return found[random.integers(len(found))]


KERNELS = [  # with a kind of objects, and with what the values are where that is told
    (Intersection(), text, of_pairs(shared)),
    (Jaccard(), text, of_pairs(share)),
    (MeanMap(Gaussian(0.7)), bag, None),
    (GaussianOfMeans(Gaussian(0.7), 0.5), bag, None),
    (Spectrum(2), text, of(lambda x: oracles.words(x, 2))),
    (BlendedSpectrum(3, 0.5), text, of(lambda x: oracles.blended(x, 3, 0.5))),
    (WildcardSpectrum(3, 1, 0.5), text, of(lambda x: oracles.wildcards(x, 3, 1, 0.5))),
    (MismatchSpectrum(length=2), text, None),
    (WeightedDegree(3), text, of(lambda x: oracles.weighted_degree(x, 3))),
    (GapWeighted(2, 0.6), text, of(lambda x: oracles.gap_weighted(x, 2, 0.6))),
    (AllSubsequences(0.8), text, of(lambda x: oracles.subsequences(x, 0.8))),
    (CommonSubsequences(0.8), text, of(lambda x: oracles.present_subsequences(x, 0.8))),
    (GlobalAlignment(0.7), series, of_pairs(lambda x, y: oracles.global_alignment(x, y, 0.7))),
    (EditSimilarity(3.0), text, of_pairs(unlike)),
    (EmpiricalMap(EditSimilarity(3.0), ("ab", "c")), text, None),
    (Subtrees(0.5), tree, of(lambda t: oracles.subtrees(t, 0.5))),
    (SubsetTrees(0.4), tree, of(lambda t: oracles.subset_trees(t, 0.4))),
    (PartialTrees(0.7, 0.4), tree, of(lambda t: oracles.partial_trees(t, 0.7, 0.4))),
    (WeisfeilerLehman(2), graph, of(lambda g: oracles.weisfeiler_lehman(g, 2))),
    (WeisfeilerLehmanAssignment(2), graph,
     of_pairs(lambda x, y: oracles.best_assignment(x, y, 2))),
    (Graphlets(3), graph, of(lambda g: oracles.graphlets(g, 3))),
    (RandomWalk(0.1), graph, of_pairs(lambda x, y: oracles.random_walks(x, y, 0.1))),
    (ShortestPath(), graph, None),
    (PropagatedAttributes(), with_attributes, None),
    (VisualWords(words=3, patch=4, stride=2), image, None),
    (Text(), long_text, None),
]  # fmt: skip


def forms(random, X):
    """The same objects as users hold them."""
    kind = random.integers(4)
    if kind == 1 and all(isinstance(x, str) for x in X):
        return np.array(X, str) if len(X) else np.empty(0, str)
    if kind == 2:
        held = np.empty(len(X), object)
        held[:] = X if len(X) != 1 else [X[0]] if isinstance(X[0], str) else None
        if len(X) == 1:
            held[0] = X[0]
        return held
    return tuple(X) if kind == 3 else list(X)


def attempt(random, seed):
    """One kernel on random objects of its kind, or of another one."""
    from fuzz.inputs import outcome

    kernel, draw, definition = KERNELS[random.integers(len(KERNELS))]
    foreign = random.random() < 0.2
    if foreign:
        draw = KERNELS[random.integers(len(KERNELS))][1]
    X = [draw(random) for _ in range(int(random.choice([0, 1, 2, 5, 9])))]
    if X and random.random() < 0.15:
        X[random.integers(len(X))], foreign = junk(random), True
    held = X if any(isinstance(x, np.ndarray) for x in X) else forms(random, X)
    name = f"seed {seed}: {kernel!r} on {len(X)} objects, the first {X[0] if X else None!r}"
    if not foreign and random.random() < 0.3:
        return _fitted(random, name, kernel, held, len(X))
    fitted = isinstance(kernel, (Text, VisualWords))
    found = outcome(lambda: (kernel.fitted(held) if fitted else kernel).gram(held).dense())
    if found.error or found.refused:
        return f"{name}\n{found.error}" if found.error else ""
    if definition is None or foreign:
        return "" if np.isfinite(found.value).all() else f"{name}: values are not finite"
    exact = definition(X).reshape(found.value.shape)
    same = np.allclose(found.value, exact, rtol=1e-10, atol=1e-12)
    return "" if same else f"{name}: {np.abs(found.value - exact).max():.1e} from the definition"


def _fitted(random, name, kernel, X, n):
    """An estimator on objects, and one on a table of them."""
    from fuzz.inputs import outcome

    y = random.integers(0, 2, n)
    models = (
        mercer.KernelRidge(kernel=kernel),
        mercer.SVC(kernel=kernel),
        mercer.KernelPCA(1, kernel=kernel),
        mercer.KernelKMeans(1, kernel=kernel, random_state=0),
        MinHash(4, random_state=0),
        ExplicitFeatures(kernel),
    )
    model = models[random.integers(len(models))]

    def answer():
        fitted = model.fit(X, y)
        return (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(X)

    found = outcome(answer)
    if found.error:
        return f"{name}, {model!r}\n{found.error}"
    if found.refused:
        return ""
    values = found.value.toarray() if scipy.sparse.issparse(found.value) else found.value
    values = np.asarray(values)
    right = len(values) == n and not (values.dtype.kind == "f" and np.isnan(values).any())
    return "" if right else f"{name}, {model!r}: {len(values)} answers for {n} objects, or NaN"
