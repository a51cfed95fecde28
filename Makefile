# Malleus: what a clone needs to be built, run and checked. `make run` first.

# The main job: from one rank on, CG over HPCG's 27-point matrix grows twice and shrinks back.
JOB := -n 1 solve hpcg:100x100x100 --resize 20:2 --resize 40:4 --resize 60:1 --verify

target := $(or $(CARGO_TARGET_DIR),target)
CARGO_DENY_VERSION := 0.20.2
scripts := scripts/setup scripts/deny scripts/docs-rs-bindings .ci/run

.PHONY: run build test lint setup docs-rs-bindings
.NOTPARALLEL:

## run: build, then the main job
run: build
	$(target)/release/malleus $(JOB)

## build: the malleus command, optimized
build: setup
	cargo build --release --bin malleus

## test: every test
test: setup
	cargo test --all-features

## lint: formatting, clippy, documentation, dependencies, shell scripts; a warning is an error
lint: setup
	cargo fmt --check
	rustfmt --check --edition 2024 build/check.rs
	cargo clippy --all-targets --all-features -- -D warnings
	cargo clippy --all-targets --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features
	scripts/deny $(CARGO_DENY_VERSION)
	if command -v shellcheck >/dev/null; then shellcheck $(scripts); fi

## setup: put into .deps what this machine lacks (an MPICH, a libclang); does nothing a second time
setup:
	@scripts/setup

## docs-rs-bindings: what docs.rs shows, from MPICH 4.2.3
docs-rs-bindings:
	scripts/docs-rs-bindings
