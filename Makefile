# One command for each habit. On a fresh machine Python 3.11 or newer and pip are enough:
#
#   make demo     from a table to a model and its report: runs `mercer demo`
#   make test     tests and doctests
#   make check    what a change must pass: style, types, imports, tests with their coverage
#   make test-gpu the code of the GPU on the CPU, through Triton's interpreter; installs torch
#   make fuzz     random inputs, problems and interruptions, for MINUTES=60 in PROCESSES=2
#   make bench    measured ratios against other libraries
#   make docs     the documentation, in docs/_build/html; MERCER_QUICK=1 runs the gallery at a reduced size
#   make pictures the pictures of docs/images again, from the examples of the same names
#   make clean    forget everything that was built, the environment too

PYTHON   ?= python3
VENV     ?= .venv
WORKERS  ?= 2
COVERAGE ?= 90

SHARP     = executions or (against_the_reference and float32) or own_points or right_hand or fused or memory \
	or smaller or old_card or in_blocks or (keep_their_digits and 12) \
	or powers or (by_elements and 33 and 10) or beside_a_distance or slopes

bin       := $(VENV)/bin
installed := $(VENV)/.installed
# Tests of one file stay with one worker: what they compile is compiled once.
pytest     = $(bin)/python -m pytest -n $(WORKERS) --dist loadfile

# Tests start some forty processes, each of which would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: demo test test-gpu test-gpu-quick check format lint types imports coverage fuzz bench docs pictures clean

demo: $(installed)-cli
	$(bin)/mercer demo

# MEASURE=--cov makes the same run count the lines it reached: see tests/conftest.py.
test: $(installed)-test
	$(pytest) $(MEASURE)

check: lint types imports coverage

format: $(installed)-dev
	$(bin)/ruff check --fix
	$(bin)/ruff format

lint: $(installed)-dev
	$(bin)/ruff check
	$(bin)/ruff format --check

types: $(installed)-dev
	$(bin)/mypy

imports: $(installed)-dev
	$(bin)/lint-imports

coverage: $(installed)-dev
	@$(MAKE) --no-print-directory test MEASURE='--cov --cov-report='
	$(bin)/coverage report --fail-under $(COVERAGE)

fuzz: $(installed)-test
	PYTHONPATH=tests $(bin)/python -m fuzz $(MINUTES) --processes $(or $(PROCESSES),2)

bench: $(installed)-plot
	$(bin)/python -m benchmarks

docs: $(installed)-docs
	$(bin)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

pictures: $(installed)-docs
	cd docs/images && for example in $$(ls *.png | sed 's/png$$/py/'); do \
		test ! -f ../../examples/$$example || MPLBACKEND=agg $(abspath $(bin))/python ../../examples/$$example; done

clean:
	rm -rf $(VENV) $(VENV)-gpu build dist docs/_build docs/gallery docs/reference/generated
	rm -rf .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -exec rm -rf {} +

# Torch lies apart: beside the others, their tests would run on it too. The second target runs a
# part of the tests that takes half a minute.
test-gpu: $(VENV)-gpu/.installed $(installed)-test
	TRITON_INTERPRET=1 PYTHONPATH=src:$(VENV)-gpu $(bin)/python -m pytest -n $(WORKERS) \
		tests/evaluation/test_gpu.py tests/evaluation/test_executions.py $(GPU_TESTS)
	PYTHONPATH=src:$(VENV)-gpu $(bin)/python -m pytest -n 0 tests/test_tensors.py tests/test_tensor_losses.py \
		tests/distributed/test_cards.py tests/evaluation/test_streamed.py \
		tests/evaluation/test_gpu_compiles.py tests/evaluation/test_executions.py tests/solvers/test_array_libraries.py

test-gpu-quick: $(VENV)-gpu/.installed $(installed)-test
	@$(MAKE) --no-print-directory test-gpu GPU_TESTS='-k "$(SHARP)"'

$(VENV)-gpu/.installed: | $(bin)/python
	$(bin)/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--target $(VENV)-gpu torch==2.13.0 triton==3.9.0 array-api-compat
	@touch $@

# One stamp for each extra: the second `make` installs nothing. Several extras by one call of pip:
# make .venv/.installed-dev,docs. Packages are compiled as they are imported: pip would go through
# thousands of files more, one after the other, for twenty seconds in which nothing else runs.
comma := ,
$(installed)-%: pyproject.toml | $(bin)/python
	$(bin)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$*]'
	@touch $(addprefix $(installed)-,$(subst $(comma), ,$*)) $@

$(bin)/python:
	$(PYTHON) -m venv $(VENV)
