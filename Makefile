# What people and CI call; `make` alone says what there is. Missing system packages are installed with apt-get, as root
# or with sudo, and named before; a Rust toolchain is presumed (scripts/check-cargo says how to get one).

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test mutants python build release nightly deps deps-build check-tools clean

# rustup puts cargo here, and a shell that was open before does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO ?= cargo

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: deps-build ## Show what becomes of a dozen submissions (KEEP=1: leave everything running until Ctrl-C)
	@$(CARGO) build --quiet --locked --workspace --bins
	@target/debug/demo $(if $(filter-out 0,$(KEEP)),--keep)

test: deps python ## Formatting, lints, documentation, every test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --quiet --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --locked --workspace --no-deps
	$(CARGO) test --quiet --locked --workspace --doc
	@if $(CARGO) nextest --version >/dev/null 2>&1; then set -x; \
	$(CARGO) nextest run --locked --workspace; \
	else set -x; \
	$(CARGO) test --locked --workspace --lib --bins --tests; \
	fi

nightly: export PROPTEST_CASES := $(or $(CASES),20000)
nightly: test ## The same, property tests with many more cases (CASES=20000)

mutants: deps ## Take each rule of the protocol away and see a test turn red (ONLY="fence pin": some)
	@scripts/mutants $(ONLY)

build: deps-build ## Build everything for development
	$(CARGO) build --locked --workspace

release: deps-build ## Build target/release/maple-router
	$(CARGO) build --locked --release -p maple-router

python: .venv/installed ## Make .venv, for the tests that ask Google's Python clients

.venv/installed: devkit/tests/python/requirements.txt | deps
	python3 -m venv --clear .venv
	.venv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

deps: check-tools ## Install what is missing for tests and demo
	@scripts/install-missing build python

deps-build: check-tools
	@scripts/install-missing build

check-tools: ## Look whether the Rust toolchain will do
	@scripts/check-cargo Cargo.toml

clean: ## Remove what was built, .venv and .demo
	$(CARGO) clean
	rm -rf .venv .demo
