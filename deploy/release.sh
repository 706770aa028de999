#!/usr/bin/env bash
# Writes a release: the folder that clusterctl reads, programs and images for both architectures, SBOM and checksums.
#
#   VERSION=v1.0.0                     the release, required; its series must be in deploy/metadata.yaml
#   IMAGE=ghcr.io/capo-rs/capo-rs      the image's repository, as the Deployment names it
#   ARCHITECTURES="amd64 arm64"        the architectures to build
#   OUT=target/releases                where the folder infrastructure-openstack/$VERSION is created
#
# The images are an OCI layout, made without a container engine; `skopeo copy oci:FOLDER/image:$VERSION docker://…` or
# `crane push FOLDER/image …` publishes it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
die() { echo "release: $*" >&2; exit 1; }

image=${IMAGE:-ghcr.io/capo-rs/capo-rs}
architectures=${ARCHITECTURES:-amd64 arm64}
[ -n "${VERSION:-}" ] || die "VERSION is not set; say which release this is, such as: make release VERSION=v1.0.0"
[[ $VERSION =~ ^v([0-9]+)\.([0-9]+)\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] ||
  die "VERSION is $VERSION; clusterctl reads v<major>.<minor>.<patch> only, such as v1.0.0 or v1.1.0-rc.1"
major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]}
grep -A1 "^- major: $major\$" deploy/metadata.yaml | grep -qx "  minor: $minor" ||
  die "deploy/metadata.yaml has no series $major.$minor; clusterctl would refuse the release: add the series with its contract"
folder=${OUT:-target/releases}/infrastructure-openstack/$VERSION
[ ! -e "$folder" ] || die "$folder exists; a release is never changed: remove the folder or choose another version"
changed=$(git status --porcelain)
[ -z "$changed" ] || die "the work tree has changes that no commit has, so nobody could build this release again: commit or remove them
$changed"
for architecture in $architectures; do
  case $architecture in amd64 | arm64) ;; *) die "ARCHITECTURES has $architecture; allowed are amd64 and arm64" ;; esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
revision=$(git rev-parse HEAD)
export CAPO_RS_REVISION=$revision CAPO_RS_VERSION=${VERSION#v}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
built=${CARGO_TARGET_DIR:-target}
binaries=() runs_here=
build() { # build ARCHITECTURE
  local architecture=$1 machine target upper
  case $architecture in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac
  target=$machine-unknown-linux-musl
  echo "release: building capo-rs $VERSION for $architecture" >&2
  rustup target list --installed | grep -qx "$target" || rustup target add "$target"
  upper=$(tr a-z- A-Z_ <<<"$target")
  if [ "$machine" != "$(uname -m)" ]; then
    # The only C code is ring's, which needs a compiler and headers for the target, and no C library to link.
    echo '#include <stdint.h>' | "$machine-linux-gnu-gcc" -E - >/dev/null 2>&1 ||
      die "building for $architecture needs $machine-linux-gnu-gcc with its headers (Debian: apt-get install gcc-${machine/_/-}-linux-gnu libc6-dev-$architecture-cross)"
    export "CC_${target//-/_}=$machine-linux-gnu-gcc" "CARGO_TARGET_${upper}_LINKER=$machine-linux-gnu-gcc"
  else
    export "CC_${target//-/_}=${CC:-cc}"
    runs_here=$built/$target/release/capo-rs
  fi
  cargo build --quiet --locked --release --target "$target" --package capo-rs --bin capo-rs
  install -D "$built/$target/release/capo-rs" "$work/release/capo-rs-linux-$architecture"
  local size
  size=$(stat -c %s "$work/release/capo-rs-linux-$architecture")
  echo "release: $architecture: $((size / 1000)) kB" >&2
  binaries+=("$architecture=$work/release/capo-rs-linux-$architecture")
}
for architecture in $architectures; do build "$architecture"; done
if [ -z "$runs_here" ]; then
  # The manifests are printed by the program, and none of the programs runs on this machine.
  cargo build --quiet --locked --package capo-rs --bin capo-rs
  runs_here=$built/debug/capo-rs
fi

echo "release: writing manifests, templates, images and SBOM" >&2
deploy/clusterctl-folder.sh "$runs_here" "$image:$VERSION" "$work/release"
python3 deploy/oci_layout.py --out "$work/release/image" --version "$VERSION" --revision "$revision" \
  --certificates /etc/ssl/certs/ca-certificates.crt "${binaries[@]}"
# In a copy, because the tool writes one file into the folder of every crate.
mkdir "$work/source"
git archive HEAD | tar -x -C "$work/source"
"${CARGO_CYCLONEDX:-cargo-cyclonedx}" cyclonedx --quiet --format json --manifest-path "$work/source/src/provider/Cargo.toml" \
  --override-filename capo-rs.cdx
# The paths of the workspace's crates are those of the repository, not of this machine.
sed "s#file://$work/source#file:///capo-rs#g" "$work/source/src/provider/capo-rs.cdx.json" >"$work/release/capo-rs.cdx.json"
(cd "$work/release" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)

mkdir -p "$(dirname "$folder")"
mv "$work/release" "$folder"
echo "release: $folder"
