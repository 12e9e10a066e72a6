# `just ci` is what a change must pass; `just check` is its quick part. Install: cargo install just

set shell := ["sh", "-eu", "-c"]

# Everything that a change must pass, as the workflow runs it on Linux
ci:
    .ci/run

# The quick part of it: format, lints, documentation, tests
check: fmt-check lint doc test

# Format the code
fmt:
    cargo fmt --all

# Is the code formatted?
fmt-check:
    cargo fmt --all -- --check

# Lints, as errors
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# API documentation, its warnings as errors
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# All tests, with the extra arguments given
test *args:
    cargo test --workspace {{args}}

# The gate of the thread pool under a model checker
loom:
    cargo test --manifest-path loom/Cargo.toml --target-dir target

# What Miri can run. Needs a nightly toolchain with it
miri *args:
    scripts/test_miri {{args}}

# The Python package, against the programs; with the arguments of pytest. Needs Python 3.11 and PyPI
python *args:
    scripts/test_python {{args}}

# The C library, from C and from Python's ctypes. Runs behind `just test`, whose programs it compares with
capi:
    scripts/test_capi

# The page for browsers, in Chromium, and its kernels as WebAssembly. Runs behind `just test`, whose programs it compares with
web:
    scripts/test_wasm_kernels
    scripts/test_web

# Kernels and quantizers, with the arguments of criterion: just bench --save-baseline before
bench *args:
    cargo bench -p qsf-runtime --bench kernels -- {{args}}
    cargo bench -p qsf-converter --bench quantize -- {{args}}

# Convert and evaluate the built-in model at several types
demo:
    cargo run --release --bin qsf-convert -- --demo

# Completions for shells and manual pages, into target/documents
documents:
    cargo build --release -p qsf-cli
    scripts/package_release.py --documents target/release target/documents

alias completions := documents
alias man := documents

# Does everything that is released have one version? With a tag, also that
versions *args:
    scripts/check_versions.py {{args}}

# Licences, advisories, sources of all dependencies. Install: cargo install cargo-deny
deny:
    cargo deny check
