"""Fork, concurrent callers, products inside products; BLAS is left as it was."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # its BLAS is there from the start
from threadpoolctl import threadpool_info, threadpool_limits

import markets
from mercer.kernels import BlockKernel, Gaussian, Matern
from mercer.runtime import threads
from processes import output_of


def blas_threads():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def test_a_forked_child_computes_what_its_parent_does():
    output = output_of(
        """
        import os, warnings
        warnings.simplefilter("ignore")  # of forking a process with threads
        import numpy as np
        from threadpoolctl import threadpool_limits
        from mercer.kernels import Gaussian
        threadpool_limits(2, user_api="blas")
        X = np.random.default_rng(0).standard_normal((2300, 3))
        gram, v = Gaussian().gram(X), np.ones(2300)
        expected = gram @ v
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(gram @ v, expected) else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert np.array_equal(gram @ v, expected)
        print("same")
        """
    )
    assert output == "same"


def test_a_child_forked_inside_a_product_gets_blas_back():
    output = output_of(
        """
        import os, warnings
        warnings.simplefilter("ignore")
        import numpy as np
        from threadpoolctl import threadpool_limits
        from mercer.runtime import threads
        from mercer.kernels import Gaussian
        threadpool_limits(2, user_api="blas")
        before = threads.blas()[1]
        gram, v = Gaussian().gram(np.random.default_rng(0).standard_normal((900, 3))), np.ones(900)
        expected = gram @ v
        with threads.single_threaded_blas():
            child = os.fork()
            if child == 0:
                same = threads.blas()[1] == before and np.array_equal(gram @ v, expected)
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert threads.blas()[1] == before
        print("same")
        """
    )
    assert output == "same"


def test_multiprocessing_by_fork():
    output = output_of(
        """
        import multiprocessing, warnings
        warnings.simplefilter("ignore")
        import numpy as np
        from mercer.kernels import Gaussian
        X = np.random.default_rng(0).standard_normal((1200, 3))
        def norm(scale):
            return Gaussian(scale).gram(X) @ np.ones(1200)
        if __name__ == "__main__":
            expected = [norm(s) for s in (0.5, 1.0, 2.0)]
            with multiprocessing.get_context("fork").Pool(2) as pool:
                results = pool.map(norm, (0.5, 1.0, 2.0))
            print(all(map(np.array_equal, results, expected)))
        """
    )
    assert output == "True"


def test_concurrent_callers_get_the_serial_answers():
    kernels = [Gaussian(1.0), Gaussian(2.0), Matern(0.5), Matern(1.5)]
    points = [markets.normal(1500, 3, 0), markets.normal(1100, 100, 1)]
    tasks = [(k.gram(X), np.ones(len(X))) for k in kernels for X in points]
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        expected = [gram @ v for gram, v in tasks]
        with ThreadPoolExecutor(8) as pool:
            for _ in range(3):
                results = list(pool.map(lambda task: task[0] @ task[1], tasks))
                assert all(map(np.array_equal, results, expected))
        assert blas_threads() == before


def test_blas_is_given_back_after_an_error():
    def failing(X, Y):
        raise RuntimeError("on purpose")

    before = blas_threads()
    with pytest.raises(RuntimeError, match="on purpose"):
        BlockKernel(failing).gram(markets.normal(600)) @ np.ones(600)
    assert blas_threads() == before


def inner_product_of_features(X, Y):
    """A kernel that computes a product of its own: ⟨K(Z, x), K(Z, y)⟩."""
    Z = markets.normal(700, X.shape[1], 9)
    return (Gaussian().gram(X, Z) @ Gaussian().gram(Z, Y).dense()) / len(Z)


class Parallel(BlockKernel):
    """The same in several threads at once."""

    @property
    def parallel(self):
        return True


@pytest.mark.parametrize("kind", [BlockKernel, Parallel])
def test_products_inside_products_end(kind):
    X = markets.normal(600, 2)
    with threadpool_limits(2, user_api="blas"):
        product = kind(inner_product_of_features).gram(X) @ np.ones(600)
    assert np.allclose(product, inner_product_of_features(X, X).sum(axis=1), rtol=1e-12)


def test_the_first_error_ends_the_work_of_all():
    done = []

    def work(item):
        done.append(item)
        if item == 0:
            raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        threads.run(work, range(100), 1)
    assert done == [0]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_item_is_worked_off_once(count):
    done = []
    threads.run(done.append, range(50), count)
    assert sorted(done) == list(range(50))


def test_nested_holds_are_given_back_by_the_last():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with threads.single_threaded_blas():
            with threads.single_threaded_blas():
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {1}
            assert threads.thread_count() == min(max(before), len(os.sched_getaffinity(0)))
        assert blas_threads() == before


def test_every_thread_holds_blas_and_gives_it_back():
    """threadpoolctl 3.8 obeys the first thread alone, here the main one."""

    def inside_and_after():
        with threads.single_threaded_blas():
            inside = blas_threads()
        return inside, blas_threads()

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as other:
        before = blas_threads()
        for _ in range(2):
            for inside, after in (inside_and_after(), other.submit(inside_and_after).result()):
                assert set(inside) == {1}
                assert after == before


def test_a_hold_is_given_back_by_another_thread_than_took_it():
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as other:
        before = blas_threads()
        first, last = threads.single_threaded_blas(), threads.single_threaded_blas()
        first.__enter__()
        other.submit(last.__enter__).result()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        other.submit(last.__exit__, None, None, None).result()
        assert blas_threads() == before


def test_work_inside_work_stays_in_its_thread():
    seen = []

    def outer(_):
        inner = []
        threads.run(lambda _: inner.append(threading.get_ident()), range(4), 2)
        seen.append(set(inner) == {threading.get_ident()})

    threads.run(outer, range(8), 2)
    assert seen == [True] * 8
