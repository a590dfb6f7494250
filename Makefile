# make install   set up .venv with hetsim and what it needs to run; what tests need, make test adds
# make demo      does splitting pay on a ROCK 5B? compared, and run to prove it
# make test      what must hold each time, in minutes
# make test-all  all tests, the whole sweep too; with SHARE=3/7 the third of seven shares of it; then elsewhere
# make elsewhere the core tests on other Pythons, where they are installed, and with the lowest versions
# make sweep     the sweep alone, or SHARE of it
# make fuzz      broken files for every verb; KIND=onnx COUNT=1000 SEED=1 START=0 VERBS=2, or AGAIN=FOLDER
# make coverage  what make test runs, and SHARE of the sweep, with the lines and branches they reach
# make mutants   small mistakes in the core, and which no test notices; PACKAGE, SEED, COUNT, SHARE
# make check     ruff, mypy --strict, import-linter
# make wheel     build/wheel: the wheel, installed alone in an empty environment, answers the first question
# make bench     the benchmarks, as JSON lines
# make docs      build/site, all of its blocks run; RENEW=1 writes what they print into the pages
# make constraints  the newest versions of all that is needed, into constraints.txt
# make fit       devices/fitted and data/fidelity, out of data/measured
# make lines     lines and files of every room, today and at SINCE=REVISION
# make fidelity  docs/fidelity.md and the points that the guard holds; ACCEPT=1 where worse is meant

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
# make test tries properties on the same examples each time; all else on those of the day, whose seed
# is printed: what fails does so again. SEED=7 draws others.
DRAWN = $(shell expr $$(date +%s) / 86400)
# Four processes keep two cores busy: many tests wait for a Ray or for processes of their own.
PYTEST = -n 4 --dist loadgroup --durations 20 --hypothesis-seed=$(or $(SEED),$(DRAWN))

.DEFAULT_GOAL := install
.PHONY: install demo test test-all elsewhere sweep fuzz coverage mutants check wheel bench docs constraints fit fidelity lines format clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "hetsim needs Python 3.11 or newer; set PYTHON=python3.11, say" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) .
	@touch $(STAMP)

$(DEV): $(STAMP)
	$(PIP) '.[dev]'
	@touch $(DEV)

demo: install
	@echo "GoogLeNet on a ROCK 5B: a CPU, a GPU, and an NPU that lacks one of its ops. Does splitting pay?"
	$(BIN)/hetsim compare zoo:inception_v1 --platform rock-5b --run

test: DRAWN = 1
test: $(DEV)
	$(BIN)/python -m pytest $(PYTEST)

test-all: $(DEV)
	$(BIN)/python -m pytest $(PYTEST) --sweep $(or $(SHARE),all)
	$(MAKE) elsewhere

UV := build/elsewhere/uv/bin/uv

$(UV):
	$(PYTHON) -m venv build/elsewhere/uv
	build/elsewhere/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

elsewhere: $(DEV) $(UV)
	$(BIN)/python tests/helpers/elsewhere.py $(or $(PLACES),lowest 3.12 3.13 3.14)

sweep: $(DEV)
	$(BIN)/python -m pytest $(PYTEST) --sweep $(or $(SHARE),all) --alone

fuzz: $(DEV)
	PYTHONPATH=tests:tests/helpers $(BIN)/python -m fuzz $(if $(AGAIN),--again $(AGAIN)) $(foreach \
		kind,$(KIND),--kind $(kind)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed \
		$(SEED)) $(if $(START),--start $(START)) $(if $(VERBS),--verbs $(VERBS))

coverage: $(DEV)
	$(BIN)/python -m pytest $(PYTEST) --sweep $(or $(SHARE),none) --cov --cov-report=json:.coverage.json
	$(BIN)/python tests/helpers/coverage_table.py .coverage.json

mutants: $(DEV)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m mutants --seed $(or $(SEED),$(DRAWN)) \
		$(if $(PACKAGE),--package $(PACKAGE)) $(if $(COUNT),--count $(COUNT)) $(if $(SHARE),--share $(SHARE))

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheel: $(STAMP)
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/empty
	build/wheel/empty/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt build/wheel/*.whl
	cd build/wheel && empty/bin/hetsim zoo:squeezenet --platform rock-5b,jetson-orin-nano,raspberry-pi-5

bench: $(DEV)
	@for file in benchmarks/*.py; do PYTHONPATH=tools $(BIN)/python $$file || exit 1; done

DOCS := $(VENV)/.docs

$(DOCS): $(DEV)
	$(PIP) '.[docs]'
	@touch $(DOCS)

docs: export NO_MKDOCS_2_WARNING := 1
docs: export OMP_NUM_THREADS := 1
docs: $(DOCS)
	$(BIN)/python tests/helpers/page_blocks.py $(if $(RENEW),,--check) $$(git ls-files 'docs/*.md')
	$(BIN)/python tests/helpers/notebooks.py $(if $(RENEW),,--check) docs/notebooks/*.ipynb
	$(if $(RENEW),$(BIN)/python tests/helpers/report_picture.py docs/report.png)
	$(BIN)/mkdocs build

# uv resolves for all Pythons at once, which pip does not; UPGRADE=1 takes what is newer.
constraints: install $(UV)
	$(UV) pip compile --quiet --universal --python-version 3.11 --all-extras --no-annotate $(if $(UPGRADE),--upgrade) \
		--custom-compile-command 'make constraints' --output-file constraints.txt pyproject.toml

fit: install
	OMP_NUM_THREADS=1 PYTHONPATH=tools $(BIN)/python -m catalog.fit $(if $(RESTS),--rests)

fidelity: install
	OMP_NUM_THREADS=1 PYTHONPATH=tools $(BIN)/python -m catalog.fidelity $(if $(ACCEPT),--accept)

lines:
	@$(PYTHON) tools/lines.py $(SINCE)

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What processes import that tests start, a hundred of them, is compiled once.
test test-all sweep coverage: export PYTHONDONTWRITEBYTECODE :=

clean:
	rm -rf $(VENV) build .cache .coverage .coverage.json .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
