# The short way to everything. Each goal says what it does before it does it; the work is in
# tools/ and CMake.

PRESET ?= release
# Not PYTHON: that one chooses the interpreter for tools/setup, and make would export ours over it.
venv_python := .venv/bin/python
SEEDS ?= 1000000
# One translation unit that includes torch takes about 1 GB, so no more jobs than cores.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
configure = cmake --preset $(PRESET) -DATP_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(venv_python) >/dev/null

.DEFAULT_GOAL := help
.PHONY: help demo demo-tp test test-real-programs build bench soak fuzz sanitize format lint clean

help:
	@echo "make demo     set up, build, and watch training with in-network aggregation"
	@echo "make demo-tp  set up, build, and watch a GPT on every mesh of a network, beside the planner"
	@echo "make test     set up, build, and run every test"
	@echo "make test-real-programs  Lightning, accelerate, transformers and torch's own tests, in a venv of their own"
	@echo "make bench    measure all-reduces beside Gloo and Open MPI (ARGS=--short: a short form)"
	@echo "make build    set up and build; the program is build/release/bin/atp"
	@echo "make soak     play a million simulated clusters (SEEDS=n: so many)"
	@echo "make fuzz     run each fuzz target for a minute (ARGS='--inputs 100000000 packets': the long form)"
	@echo "make sanitize  run every C++ test under sanitizers"
	@echo "make format   format all sources in place"
	@echo "make lint     check format and common mistakes (CHANGED=1: only your changes)"
	@echo "make clean    remove build/ and out/; .venv stays"

demo:
	@echo "demo: set up and build what the demo needs, then run it (ARGS=--short: a short form)"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET) --target product
	@$(venv_python) examples/demo/demo.py $(ARGS)

demo-tp:
	@echo "demo-tp: set up and build what the demo needs, then run it (ARGS=--short: a short form)"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET) --target product
	@$(venv_python) examples/demo_tp/demo.py $(ARGS)

# Both runners run even if the first fails, so that one call shows everything there is to mend.
# The Python tests wait for processes, packets and leases half of their time, so there is one more at
# a time than cores; a file's tests stay together, as they share what they have started.
test:
	@echo "test: set up, build, run the C++ tests and then the Python tests"
	@tools/setup --dev
	@$(configure)
	@cmake --build --preset $(PRESET)
	@status=0; \
	ctest --preset $(PRESET) -j $(CMAKE_BUILD_PARALLEL_LEVEL) || status=1; \
	$(venv_python) -m pytest --durations=12 -n $$(($$(nproc) + 1)) --dist loadfile || status=1; \
	exit $$status

# Lightning, accelerate and transformers beside .venv's torch, which pip is told to keep as it is.
real_programs := build/real-programs
$(real_programs)/installed: requirements-real-programs.txt
	@$(venv_python) -m venv --clear --without-pip --system-site-packages $(real_programs)
	@$(venv_python) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(real_programs)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dev.pth"
	@$(venv_python) -c 'import torch; print(f"torch=={torch.__version__}")' > $(real_programs)/constraints.txt
	@$(real_programs)/bin/python -m pip install --quiet -c $(real_programs)/constraints.txt -r $<
	@touch $@

test-real-programs:
	@echo "test-real-programs: set up, build, install the libraries, and train over atp and over Gloo"
	@tools/setup --dev
	@$(configure)
	@cmake --build --preset $(PRESET) --target product
	@$(MAKE) --no-print-directory $(real_programs)/installed
	@$(real_programs)/bin/python -m pytest tests/real_programs tests/torch_suite

build:
	@echo "build: set up and build everything into build/$(PRESET)"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET)

bench:
	@echo "bench: set up, build, and time all-reduces in turns with their peers' (ARGS=--short: a short form)"
	@tools/setup --bench
	@$(configure)
	@cmake --build --preset $(PRESET) --target product
	@$(venv_python) -m bench $(ARGS)

soak:
	@echo "soak: build, then play $(SEEDS) simulated clusters; the first that fails prints its replay line"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET) --target atp
	@build/$(PRESET)/bin/atp sim --count $(SEEDS) --threads $(CMAKE_BUILD_PARALLEL_LEVEL)

fuzz:
	@echo "fuzz: build the fuzz targets and run them (tools/fuzz --help: what ARGS may be)"
	@tools/setup --dev
	@$(configure)
	@tools/fuzz $(ARGS)

sanitize:
	@echo "sanitize: build and run the tests under sanitizers (tools/sanitize --help: what ARGS may be)"
	@tools/setup --dev
	@tools/sanitize $(ARGS)

format:
	@echo "format: rewrite all sources in the house format"
	@tools/setup --dev
	@tools/lint --fix

lint: PRESET := release
lint:
	@echo "lint: check the format of all sources and look for common mistakes"
	@tools/setup --dev
	@$(configure)
	@tools/lint $(if $(CHANGED),--changed)

clean:
	@echo "clean: remove build/ and out/"
	@rm -rf build out
