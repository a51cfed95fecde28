# Malleus: what a clone needs to be built, run and checked. `make run` first.

# The main job: from one rank on, CG over HPCG's 27-point matrix grows twice and shrinks back.
JOB := -n 1 solve hpcg:100x100x100 --resize 20:2 --resize 40:4 --resize 60:1 --verify

target := $(or $(CARGO_TARGET_DIR),target)
CARGO_DENY_VERSION := 0.20.2
scripts := $(filter-out %.txt scripts/matrix,$(wildcard scripts/*)) .ci/run

.PHONY: run build static-library test test-static test-matrix lint header coverage setup docs-rs-bindings
.NOTPARALLEL:

## run: build, then the main job
run: build
	$(target)/release/malleus $(JOB)

## build: the malleus command, optimized
build: setup
	cargo build --release --bin malleus

## static-library: libmalleus.a, its header and its pkg-config file, for C programs
static-library: setup
	scripts/static-library $(target)/static-library

## test: every test
test: setup
	cargo test --all-features

## test-static: malleus with MPICH itself linked statically (Debian 12's)
test-static: setup
	scripts/test-static

## test-matrix: the tests with every supported MPICH and netmod; takes long
test-matrix: setup
	scripts/test-matrix

## lint: formatting, clippy, documentation, dependencies, shell scripts; a warning is an error
lint: setup
	cargo fmt --check
	rustfmt --check --edition 2024 build/check.rs
	cargo clippy --all-targets --all-features -- -D warnings
	cargo clippy --all-targets --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features
	cargo test --all-features --test header
	scripts/deny $(CARGO_DENY_VERSION)
	if command -v shellcheck >/dev/null; then shellcheck $(scripts); fi

## setup: put into .deps what this machine lacks (an MPICH, a libclang); does nothing a second time
setup:
	@scripts/setup

## header: ffi/malleus.h, from src/capi
header: setup
	MALLEUS_WRITE_HEADER=1 cargo test --all-features --test header

## coverage: docs/coverage.md, from the cases of tests/mpi
coverage: setup
	MALLEUS_WRITE_COVERAGE=1 cargo test --all-features --test mpi -- coverage_table

## docs-rs-bindings: what docs.rs shows, from MPICH 4.2.3
docs-rs-bindings:
	scripts/docs-rs-bindings
