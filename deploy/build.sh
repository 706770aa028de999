#!/usr/bin/env bash
# Builds the shipped program for each architecture, static and without paths of this machine in it, and fails where one is larger
# than is promised.
#
#   deploy/build.sh ARCHITECTURE...            amd64, arm64; prints ARCHITECTURE=PROGRAM for each of them
#   deploy/build.sh --check ARCHITECTURE...    only says which compiler is missing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
die() { echo "build: $*" >&2; exit 1; }
promised=15000000
only_check=
[ "${1:-}" != --check ] || { only_check=yes; shift; }

targets=()
for architecture in "$@"; do
  case $architecture in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) die "unknown architecture $architecture; allowed are amd64 and arm64" ;; esac
  target=$machine-unknown-linux-musl
  # The only C code is ring's, which needs a compiler and headers for the target, and no C library to link.
  if [ "$machine" = "$(uname -m)" ]; then
    compiler=${CC:-cc}
    command -v "$compiler" >/dev/null || die "building needs a C compiler, and $compiler is not in PATH (Debian: apt-get install gcc libc6-dev)"
  else
    compiler=$machine-linux-gnu-gcc
    echo '#include <stdint.h>' | "$compiler" -E - >/dev/null 2>&1 ||
      die "building for $architecture needs $compiler with its headers (Debian: apt-get install gcc-${machine/_/-}-linux-gnu libc6-dev-$architecture-cross)"
    upper=$(tr a-z- A-Z_ <<<"$target")
    export "CARGO_TARGET_${upper}_LINKER=$compiler"
  fi
  export "CC_${target//-/_}=$compiler"
  targets+=("$architecture=$target")
done
[ ${#targets[@]} -gt 0 ] || die "name the architectures: deploy/build.sh amd64 arm64"
[ -z "$only_check" ] || exit 0
for one in "${targets[@]}"; do
  target=${one#*=}
  rustup target list --installed | grep -qx "$target" || rustup target add "$target" >&2
done

# The paths of dependencies on this machine are left out of the binary, so that two machines build the same bytes.
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src="
export RUSTFLAGS
# One call for all of them: the last step of a program keeps one processor busy only. On a terminal it shows how far it is.
quiet=--quiet
[ ! -t 2 ] || quiet=
# shellcheck disable=SC2086 # an option or none
cargo build $quiet --locked --release "${targets[@]/#*=/--target=}" --package capo-rs --bin capo-rs >&2
for one in "${targets[@]}"; do
  program=${CARGO_TARGET_DIR:-target}/${one#*=}/release/capo-rs
  size=$(stat -c %s "$program")
  echo "build: ${one%%=*}: $((size / 1000)) kB" >&2
  [ "$size" -le "$promised" ] || die "the program for ${one%%=*} is larger than $((promised / 1000)) kB"
  echo "${one%%=*}=$program"
done
