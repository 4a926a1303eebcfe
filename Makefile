# setup: a virtual environment with everything.  The other targets set it up first if needed.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin

.PHONY: setup demo test check bench full fuzz clean

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Peerwise needs Python 3.11 or later: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	scripts/browser & $(BIN)/python -m pip install --quiet --no-compile --editable '.[all]' --group dev; code=$$?; wait; exit $$code
	@touch $(READY)

demo: setup ## a network learns digits while you watch
	$(BIN)/peerwise demo

test: setup ## everything that must hold: format, lint, types, layers, tests
	scripts/check $(ARGS)

check: test

bench: setup ## speed and memory, as ratios measured in one run
	$(BIN)/python -m benchmarks

full: setup ## what takes long: claims at full size (needs PEERWISE_DATA), every case of a comparison
	PEERWISE_FULL=1 $(BIN)/python -m pytest -m "full or bits or laid_out" -n 2 --dist load --durations=20 $(ARGS)

fuzz: setup ## thousands of random descriptions, keys and damaged files (docs/testing.md); SEED=1 for others
	for what in "descriptions --count 10000" "keys --count 8" "files --count 10000"; do \
	  PYTHONPATH=src:tests $(BIN)/python -m fuzz $$what --seed $(or $(SEED),0) || failed=1; \
	done; exit $${failed:-0}

clean:
	rm -rf $(VENV) build dist runs .jax-cache
