#!/usr/bin/env bash
# Builds the program as the Dockerfile does, lays its files out as in the image, and runs it there as the image's user with
# a read-only root and no other files of this machine. Needs root (chroot, mount), but no container engine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
die() { echo "image-check: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "needs root, for chroot and a read-only mount"

target=$(uname -m)-unknown-linux-musl
rustup target list --installed | grep -qx "$target" || rustup target add "$target"
# The only C code is ring's, which needs no C library: the system's compiler does.
export "CC_${target//-/_}=${CC:-cc}"
cargo build --locked --release --target "$target" --package capo-rs --bin capo-rs
binary=target/$target/release/capo-rs

size=$(stat -c %s "$binary")
echo "binary: $((size / 1000)) kB"
mkdir -p target/figures
cat >target/figures/image.json <<END
{"command": "make image-check", "source": "$(git rev-parse --short=12 HEAD:src)", "figures": [
  {"what": "size of the program in the image", "unit": "MB", "measured": $((size / 100000 / 10)).$((size / 100000 % 10)), "promised": 15}]}
END
[ "$size" -le 15000000 ] || die "the binary is larger than 15 MB"

root=$(mktemp -d)
trap 'umount "$root" 2>/dev/null || true; rm -rf "$root" "$root.out"' EXIT
mkdir "$root.out"
install -D "$binary" "$root.out/capo-rs"
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root.out/etc/ssl/certs/ca-certificates.crt"
mount --bind "$root.out" "$root"
mount -o remount,bind,ro "$root"

inside() { env -i "$(command -v chroot)" --userspec=65532:65532 "$root" /capo-rs "$@"; }
inside --version
inside --help >/dev/null
[ "$(inside manifests | grep -c '^kind: ')" -ge 10 ] || die "manifests are missing from the binary"
[ "$(inside crds | grep -c '^kind: CustomResourceDefinition')" -ge 5 ] || die "definitions are missing from the binary"
# Outside a Pod and without a kubeconfig it must end by itself and name what is missing.
if output=$(inside --health-addr=127.0.0.1:0 --diagnostics-address=0 --webhook-port=0 2>&1); then
  die "it started without a Kubernetes API"
fi
grep -q -- --kubeconfig <<<"$output" || die "it did not name what is missing: $output"
echo "image-check: ok"
