# Shortcuts for everything. Each target says what it does before doing it; the work is done by
# tools/ and CMake.

PRESET ?= release
# Not PYTHON, which chooses the interpreter for tools/setup: make would override it with ours.
venv_python := .venv/bin/python
SEEDS ?= 1000000
# cmake/AtpJobs.cmake compiles fewer sources at once if there is little memory.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
configure = cmake --preset $(PRESET) -DATP_PYTHON=ON -DPython_EXECUTABLE="$(CURDIR)/$(venv_python)" >/dev/null

.DEFAULT_GOAL := help
.PHONY: help demo demo-tp test test-real-programs test-packages build package bench papers ns3 soak fuzz sanitize format lint clean

help:
	@echo "make demo     set up, build, and train a model with in-network aggregation"
	@echo "make demo-tp  set up, build, and train a Llama on every mesh of a network, and compare the times with the planner's"
	@echo "make test     set up, build, and run every test"
	@echo "make test-real-programs  test with Lightning, accelerate, transformers and torch's own tests, in a separate venv"
	@echo "make package  build the Debian package, the wheel and the source package, into build/packages"
	@echo "make test-packages  as root: install and run these packages from scratch"
	@echo "make bench    time all-reduces against Gloo and Open MPI (ARGS=--short: short form)"
	@echo "make papers   run every figure and table of both papers; compare ours (ARGS=--quick: shapes only)"
	@echo "make ns3      compare the simulator with ns-3, which is downloaded (70 MB)"
	@echo "make build    set up and build; the program is build/release/bin/atp"
	@echo "make soak     simulate a million clusters (SEEDS=n: n clusters)"
	@echo "make fuzz     run each fuzz target for a minute (ARGS='--inputs 100000000 packets': long form)"
	@echo "make sanitize  run every C++ test under sanitizers"
	@echo "make format   format all sources in place"
	@echo "make lint     check format and common mistakes (CHANGED=1: only your changes)"
	@echo "make clean    remove build/ and out/, but not .venv"

demo:
	@echo "demo: set up and build what the demo needs, then run it (ARGS=--short: short form)"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET) --target product
	@$(venv_python) examples/demo/demo.py $(ARGS)

demo-tp:
	@echo "demo-tp: set up and build what the demo needs, then run it (ARGS=--short: short form)"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET) --target product
	@$(venv_python) examples/demo_tp/demo.py $(ARGS)

# Both test runners run even if the first fails, so that one call shows all failures. The Python
# tests spend half of their time waiting for processes, packets and leases, so one more runs at a
# time than there are cores. The tests of a file stay together because they share processes.
test:
	@echo "test: set up, build, run the C++ tests and then the Python tests"
	@tools/setup --dev
	@$(configure)
	@cmake --build --preset $(PRESET)
	@status=0; \
	ctest --preset $(PRESET) -j $(CMAKE_BUILD_PARALLEL_LEVEL) || status=1; \
	$(venv_python) -m pytest --durations=12 -n $$(($$(nproc) + 1)) --dist loadfile || status=1; \
	exit $$status

# Lightning, accelerate and transformers with .venv's torch, which constraints.txt makes pip keep.
real_programs := build/real-programs
$(real_programs)/installed: requirements-real-programs.txt
	@$(venv_python) -m venv --clear --without-pip --system-site-packages $(real_programs)
	@$(venv_python) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(real_programs)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dev.pth"
	@$(venv_python) -c 'import torch; print(f"torch=={torch.__version__}")' > $(real_programs)/constraints.txt
	@$(real_programs)/bin/python -m pip install --quiet -c $(real_programs)/constraints.txt -r $<
	@touch $@

# ns-3's side of experiments/ns3, compiled with ns-3's headers and libraries from its Python package.
ns3 := build/ns3
$(ns3)/installed: requirements-ns3.txt
	@rm -rf $(ns3)
	@$(venv_python) -m pip install --quiet --no-deps --no-compile --only-binary=:all: \
	  --python-version 3.11 --target $(ns3) -r $<
	@touch $@

$(ns3)/all_reduce $(ns3)/arrivals: $(ns3)/%: experiments/ns3/peer/%.cc experiments/ns3/peer/fabric.h $(ns3)/installed
	@$(CXX) -std=c++20 -O2 -Wall -Wextra -I. -isystem $(ns3)/ns3/include $< -o $@ -L$(ns3)/ns3/lib64 \
	  -Wl,-rpath,'$$ORIGIN/ns3/lib64' -lns3.44-point-to-point -lns3.44-network -lns3.44-core

ns3:
	@echo "ns3: set up, build, install ns-3, and compare the simulator with it (for ARGS see python -m experiments.ns3 --help)"
	@tools/setup --dev
	@$(configure)
	@cmake --build --preset $(PRESET) --target sharing_contest network_arrivals
	@$(MAKE) --no-print-directory $(ns3)/all_reduce $(ns3)/arrivals
	@$(venv_python) -m experiments.ns3 $(ARGS)

test-real-programs:
	@echo "test-real-programs: set up, build, install the libraries, train over atp and over Gloo, and run ns-3"
	@tools/setup --dev
	@$(configure)
	@cmake --build --preset $(PRESET) --target product sharing_contest network_arrivals
	@$(MAKE) --no-print-directory $(real_programs)/installed $(ns3)/all_reduce $(ns3)/arrivals
	@$(real_programs)/bin/python -m pytest tests/real_programs tests/torch_suite

build:
	@echo "build: set up and build everything into build/$(PRESET)"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET)

package:
	@echo "package: set up, build the program, and pack it into build/packages (for ARGS see tools/package --help)"
	@tools/setup
	@tools/package $(ARGS)

test-packages:
	@echo "test-packages: build the packages, make a bare Debian with debootstrap, install and run them there (needs root)"
	@tools/setup --dev
	@$(venv_python) -m pytest tests/packages

bench:
	@echo "bench: set up, build, and time all-reduces against Gloo and Open MPI (ARGS=--short: short form)"
	@tools/setup --bench
	@$(configure)
	@cmake --build --preset $(PRESET) --target product
	@$(venv_python) -m experiments.bench $(ARGS)

papers:
	@echo "papers: set up, build, and run the papers' figures and tables (for ARGS see python -m experiments.papers --help)"
	@tools/setup --dev
	@$(configure)
	@cmake --build --preset $(PRESET) --target product sharing_contest planner_paper pausing_rank
	@$(venv_python) -m experiments.papers $(ARGS)

soak:
	@echo "soak: build, then simulate $(SEEDS) clusters; the first failure prints the command that replays it"
	@tools/setup
	@$(configure)
	@cmake --build --preset $(PRESET) --target atp
	@build/$(PRESET)/bin/atp sim --count $(SEEDS) --threads $(CMAKE_BUILD_PARALLEL_LEVEL)

fuzz:
	@echo "fuzz: build the fuzz targets and run them (for ARGS see tools/fuzz --help)"
	@tools/setup --dev
	@$(configure)
	@tools/fuzz $(ARGS)

sanitize:
	@echo "sanitize: build and run the tests under sanitizers (for ARGS see tools/sanitize --help)"
	@tools/setup --dev
	@tools/sanitize $(ARGS)

format:
	@echo "format: format all sources in place"
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
