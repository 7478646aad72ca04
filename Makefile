# What people and CI call; `make` alone says what there is. Missing system packages are installed with apt-get, as root
# or with sudo, and named before; a Rust toolchain is presumed (scripts/check-cargo says how to get one).

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test late drill soak outages crowd kills bench bench-outbox bench-relay-log desk-load upload-load purge-load screening-load grading-load screenshots grown backlog soak-build mutants python build release deb test-deb test-systemd reproduce nightly
.PHONY: deps deps-build peers check-tools clean

# rustup puts cargo here, and a shell that was open before does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO ?= cargo

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: deps-build ## Show what becomes of a dozen submissions, two of them with files that are brought (KEEP=1: leave it running; SOURCE=postgres: without Pub/Sub)
	@scripts/install-missing scanner
	@scripts/build-watched --workspace --bins
	@target/debug/demo $(if $(filter-out 0,$(KEEP)),--keep) $(if $(SOURCE),--source $(SOURCE))

test: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
test: deps python ## Formatting, lints, documentation, every test
	scripts/part fmt $(CARGO) fmt --all --check
	@scripts/part units scripts/check-units
	scripts/part "lints, build of tests" scripts/build-linted --workspace --lib --bins --tests
	RUSTDOCFLAGS="-D warnings" scripts/part doc env -u RUSTC_WORKSPACE_WRAPPER $(CARGO) doc --quiet --locked --workspace --no-deps
	scripts/part doctests $(CARGO) test --quiet --locked --workspace --doc
	@if $(CARGO) nextest --version >/dev/null 2>&1; then set -x; \
	scripts/part suite $(CARGO) nextest run --locked --workspace; \
	else set -x; \
	scripts/part suite $(CARGO) test --locked --workspace --lib --bins --tests; \
	fi

# In this order: the cheap ones find most. What they came to is written into tests/README.md by hand.
nightly: export PROPTEST_CASES := $(or $(CASES),20000)
nightly: export SIM_SEQUENCES := $(or $(SEQUENCES),5000)
nightly: test late mutants drill soak outages crowd kills grading-load grown backlog bench-outbox test-deb reproduce ## What is too slow for make test: many cases (CASES, SEQUENCES), mutants, drill, soak, package

late: deps-build ## The tests that make test leaves to the night: two routers at every kill point from the outbox, three from either source; BACKFILL=500 tickets; a file of 200 MiB among kills; 100,000 blobs and two collectors
	$(CARGO) test --locked -p maple-router --test kill -- --ignored
	BACKFILL=$(or $(BACKFILL),500) $(CARGO) test --locked -p maple-router --test tickets -- backfill::each_ticket
	UPLOAD_MEBIBYTES=$(or $(MEBIBYTES),200) UPLOAD_KILLS=$(or $(KILLS),10) $(CARGO) test --locked -p maple-router --test uploads -- process::
	$(CARGO) test --locked -p maple-router --test retention -- --ignored

soak: soak-build ## Three daemons under load for 20 minutes while everything fails around them (SOAK_SECONDS=1200)
	@target/debug/soak --binary target/release/maple-router

outages: soak-build ## Relay, then PostgreSQL gone for five minutes in real time, then a help desk that throttles for ten (SOAK_SECONDS=300)
	@target/debug/soak --binary target/release/maple-router --outage relay --dir .soak/relay
	@target/debug/soak --binary target/release/maple-router --outage postgres --dir .soak/postgres
	@target/debug/soak --binary target/release/maple-router --outage help-desk --dir .soak/help-desk

crowd: deps-build release ## Many finalize and scan in plain SQL and are killed; each is routed once, from either source (CROWD=100000)
	@$(CARGO) build --quiet --locked -p devkit --bin crowd
	@target/debug/crowd --binary target/release/maple-router

kills: deps-build release ## A router before a real Postfix dies a thousand times, and every mail is counted upstream (KILLS=1000; as root)
	@scripts/install-missing delivery
	@$(CARGO) build --quiet --locked -p devkit --bin kills
	@target/debug/kills --binary target/release/maple-router

desk-load: deps-build release ## Each page of the desk among a million entries, and routing beside a flood of it (ENTRIES=1000000)
	@$(CARGO) build --quiet --locked --release -p devkit --bin desk-load
	@target/release/desk-load --entries $(or $(ENTRIES),1000000)

upload-load: deps-build release ## How fast a file comes in beside curl, is verified and scanned, and its memory (MEBIBYTES=200)
	@$(CARGO) build --quiet --locked --release -p devkit --bin upload-load
	@target/release/upload-load --mebibytes $(or $(MEBIBYTES),200)

purge-load: deps-build release ## What a purge of a million ended submissions costs routing beside it, and its memory (ROWS=1000000 RATE=500 SECONDS=60 TURNS=3)
	@scripts/install-missing delivery
	@$(CARGO) build --quiet --locked --release -p devkit --bin purge-load
	@target/release/purge-load --rows $(or $(ROWS),1000000) --rate $(or $(RATE),500) --seconds $(or $(SECONDS),60) \
	--turns $(or $(TURNS),3)

screening-load: deps-build release ## What rules and a judge come to with the database, and what schema screening costs routing (RUNS=20000 TURNS=5)
	@scripts/install-missing delivery
	@$(CARGO) build --quiet --locked --release -p devkit --bin screening-load
	@target/release/screening-load --runs $(or $(RUNS),20000) --turns $(or $(TURNS),5)

grading-load: deps-build release ## A thousand requests among killed graders, listening by the key, minutes of 429, and what grading costs routing (REQUESTS=1000 LISTENING=10000 MINUTES=10 TURNS=5)
	@scripts/install-missing delivery
	@$(CARGO) build --quiet --locked --release -p devkit --bin grading-load
	@target/release/grading-load --requests $(or $(REQUESTS),1000) --listening $(or $(LISTENING),10000) --minutes $(or $(MINUTES),10) \
	--turns $(or $(TURNS),5)

screenshots: deps-build ## Pictures of every page of the desk, light and dark (contrib/screenshots)
	@scripts/install-missing browser
	@scripts/screenshots

grown: deps-build ## What each statement touches beside ten million ended submissions, and beside a thousand (GROWN=10000000; 15 GB)
	GROWN=$(or $(GROWN),10000000) $(CARGO) test --locked -p maple-router --test grown -- --nocapture

backlog: deps-build release ## Peak memory beside a million open submissions and waiting events (BACKLOG=1000000)
	BACKLOG=$(or $(BACKLOG),1000000) BACKLOG_BINARY=target/release/maple-router \
	$(CARGO) test --locked -p maple-router --test backlog -- --nocapture

bench: deps-build peers release ## The same submissions through the router, its peers and the machine's limits, alternately (ONLY N REPEAT SHAPE RECEIVER LAG DAEMONS APART)
	@$(CARGO) build --quiet --locked --release -p devkit --bin bench
	@target/release/bench

peers: check-tools ## Build what make bench compares with (benches/peers), versions as locked
	@scripts/install-missing delivery patches python node
	@benches/peers/build

bench-outbox: deps-build ## What the outbox's triggers cost, and what its coming and going does to writers (ROWS=1000000)
	@$(CARGO) build --quiet --locked --bin maple-router
	@scripts/bench-outbox

bench-relay-log: deps-build ## What two million lines that are not about our mails cost
	@scripts/install-missing delivery
	@$(CARGO) test --quiet --locked --release --package maple-router --test relay_log -- --ignored --nocapture two_million

drill: deps-build ## What red does, and whether blue sees it (ONLY="relay pause": some steps)
	@scripts/install-missing monitoring
	@$(CARGO) build --quiet --locked --workspace --bins
	@target/debug/drill $(ONLY)

soak-build: deps-build release
	$(CARGO) build --quiet --locked -p devkit --bin soak

mutants: deps ## Take each rule of the protocol away and see a test go red (ONLY="fence pin": some)
	@scripts/mutants $(ONLY)

build: deps-build ## Build everything for development
	$(CARGO) build --locked --workspace

release: deps-build ## Build target/release/maple-router, the same from the same commit wherever it is built
	@scripts/build-release

deb: deps-build ## Build the Debian package into target/debian/
	@scripts/install-missing deb
	@scripts/build-deb

test-deb: deb ## Install, upgrade, remove and purge the package in a fresh Debian, without booting it (as root)
	@scripts/install-missing test-deb
	@scripts/test-deb

# Neither binary of the development package is built for it: `make test` has both.
test-systemd: deps-build ## The package on a Debian that systemd has booted: starts, stops, freezes, upgrades, sandbox (as root; DEVELOPMENT=1: not optimised)
	@scripts/install-missing deb test-systemd
	@scripts/part "package build" scripts/build-deb $(if $(DEVELOPMENT),--development)
	@scripts/part "build of the parts" $(CARGO) build --quiet --locked --workspace --bins
	@scripts/part "booted Debian" python3 -B tests/booted --parts target/debug/parts \
	--deb "$$(ls -t target/$(if $(DEVELOPMENT),debug,debian)/maple-router_*.deb | head -n 1)"

reproduce: deb ## Build the last commit again in another directory, and compare binary and package byte for byte
	@scripts/reproduce

python: .venv/installed ## Make .venv, for the tests that ask Google's Python clients and run contrib/'s

.venv/installed: devkit/tests/python/requirements.txt | deps
	python3 -m venv --clear .venv
	.venv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

deps: check-tools ## Install what is missing for tests and demo
	@scripts/install-missing build units pooling python browser monitoring delivery scanner signing screening

deps-build: check-tools
	@scripts/install-missing build

check-tools: ## Look whether the Rust toolchain will do
	@scripts/check-cargo Cargo.toml

clean: ## Remove what was built, .venv and .demo
	$(CARGO) clean
	rm -rf .venv .demo .drill
