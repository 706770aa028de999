#!/usr/bin/env bash
# Builds the program and its image as a release does, unpacks the image, and runs the program there as the image's user with a
# read-only root and no other files of this machine. Needs root (chroot, mount), but no container engine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
die() { echo "image-check: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "needs root, for chroot and a read-only mount"

case $(uname -m) in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) die "the program is not built for $(uname -m)" ;; esac
# Built as a release is, so that what the program says about its version is checked too.
export CAPO_RS_VERSION=1.0.0
built=$(deploy/build.sh "$architecture")
binary=${built#*=}
size=$(stat -c %s "$binary")
mkdir -p target/figures
cat >target/figures/image.json <<END
{"command": "make image-check", "source": "$(.ci/sources)", "figures": [
  {"what": "size of the program in the image", "unit": "MB", "measured": $((size / 100000 / 10)).$((size / 100000 % 10)), "promised": 15}]}
END

root=$(mktemp -d)
trap 'umount "$root" 2>/dev/null || true; rm -rf "$root" "$root.out" "$root.image"' EXIT
mkdir "$root.out"
python3 deploy/oci_layout.py --out "$root.image" --version check --revision check \
  --certificates /etc/ssl/certs/ca-certificates.crt "$architecture=$binary"
# The image has one layer; all other blobs are small JSON files.
tar -xzf "$(find "$root.image/blobs" -type f -size +1M)" -C "$root.out"
[ -s "$root.out/etc/ssl/certs/ca-certificates.crt" ] || die "the image has no certificate authorities"
mount --bind "$root.out" "$root"
mount -o remount,bind,ro "$root"

inside() { env -i "$(command -v chroot)" --userspec=65532:65532 "$root" /capo-rs "$@"; }
version=$(inside --version)
[[ $version == "capo-rs $CAPO_RS_VERSION "* ]] || die "it was built as $CAPO_RS_VERSION and says: $version"
echo "$version"
inside --help >/dev/null
manifests=$(inside manifests)
[ "$(grep -c '^kind: ' <<<"$manifests")" -ge 10 ] || die "manifests are missing from the binary"
grep -qx " *image: ghcr.io/capo-rs/capo-rs:v$CAPO_RS_VERSION" <<<"$manifests" || die "its manifests do not name the image of its version"
[ "$(inside crds | grep -c '^kind: CustomResourceDefinition')" -ge 5 ] || die "definitions are missing from the binary"
# Outside a Pod and without a kubeconfig it must end by itself and name what is missing.
if output=$(inside --health-addr=127.0.0.1:0 --diagnostics-address=0 --webhook-port=0 2>&1); then
  die "it started without a Kubernetes API"
fi
grep -q -- --kubeconfig <<<"$output" || die "it did not name what is missing: $output"
echo "image-check: ok"
