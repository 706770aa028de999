#!/usr/bin/env bash
# Writes a release: the folder that clusterctl reads, programs and images for both architectures, SBOM and checksums.
#
#   VERSION=v1.0.0                     the release, required; its series must be in deploy/metadata.yaml
#   IMAGE=ghcr.io/capo-rs/capo-rs      the image's repository, as the Deployment names it
#   ARCHITECTURES="amd64 arm64"        the architectures to build
#   OUT=target/releases                where the folder infrastructure-openstack/$VERSION is created
#   SIGNING_KEY=                       a key of gpg that signs the checksums; without one they are not signed
#
# `deploy/release.sh --check` only says what stands in the way of that release.
#
# The images are an OCI layout, made without a container engine. In the folder of the release,
# `skopeo copy --all oci:image:$VERSION docker://…` or `crane push image …` publishes the images of all architectures.
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
for architecture in $architectures; do
  case $architecture in amd64 | arm64) ;; *) die "ARCHITECTURES has $architecture; allowed are amd64 and arm64" ;; esac
done
if [ -n "${SIGNING_KEY:-}" ]; then
  gpg --batch --list-secret-keys "$SIGNING_KEY" >/dev/null 2>&1 || die "SIGNING_KEY is $SIGNING_KEY, of which gpg has no secret key"
fi
folder=${OUT:-target/releases}/infrastructure-openstack/$VERSION
[ ! -e "$folder" ] || die "$folder exists; a release is never changed: remove the folder or choose another version"
changed=$(git status --porcelain)
[ -z "$changed" ] || die "the work tree has changes that no commit has, so nobody could build this release again: commit or remove them
$changed"
certificates=/etc/ssl/certs/ca-certificates.crt
[ -s "$certificates" ] || die "the images need the certificate authorities in $certificates (Debian: apt-get install ca-certificates)"
command -v python3 >/dev/null || die "the images are written by python3, which is not in PATH"
command -v rustup >/dev/null || die "the programs are built by rustup's tool chain, and rustup is not in PATH: https://rustup.rs"
# shellcheck disable=SC2086 # a list of words
deploy/build.sh --check $architectures
[ "${1:-}" != --check ] || exit 0
cyclonedx=${CARGO_CYCLONEDX:-cargo-cyclonedx}
command -v "$cyclonedx" >/dev/null || die "the SBOM is written by $cyclonedx, which is not there: make release builds it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
revision=$(git rev-parse HEAD)
export CAPO_RS_REVISION=$revision CAPO_RS_VERSION=${VERSION#v}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
echo "release: building capo-rs $VERSION for $architectures: some minutes for each" >&2
# shellcheck disable=SC2086 # a list of words
built=$(deploy/build.sh $architectures)
binaries=() runs_here=
for one in $built; do
  architecture=${one%%=*} program=${one#*=}
  install -D "$program" "$work/release/capo-rs-linux-$architecture"
  binaries+=("$architecture=$work/release/capo-rs-linux-$architecture")
  case $architecture/$(uname -m) in amd64/x86_64 | arm64/aarch64) runs_here=$program ;; esac
done
if [ -z "$runs_here" ]; then
  # The manifests are printed by the program, and none of the programs runs on this machine.
  cargo build --quiet --locked --package capo-rs --bin capo-rs
  runs_here=${CARGO_TARGET_DIR:-target}/debug/capo-rs
fi

echo "release: writing manifests, templates, images and SBOM" >&2
deploy/clusterctl-folder.sh "$runs_here" "$image:$VERSION" "$work/release"
python3 deploy/oci_layout.py --out "$work/release/image" --version "$VERSION" --revision "$revision" \
  --certificates "$certificates" "${binaries[@]}"
# In a copy, because the tool writes one file into the folder of every crate.
mkdir "$work/source"
git archive HEAD | tar -x -C "$work/source"
"$cyclonedx" cyclonedx --quiet --format json --manifest-path "$work/source/src/provider/Cargo.toml" \
  --override-filename capo-rs.cdx
# The paths of the workspace's crates are those of the repository, not of this machine.
sed "s#file://$work/source#file:///capo-rs#g" "$work/source/src/provider/capo-rs.cdx.json" >"$work/release/capo-rs.cdx.json"
(cd "$work/release" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
if [ -n "${SIGNING_KEY:-}" ]; then
  gpg --batch --armor --detach-sign --local-user "$SIGNING_KEY" --output "$work/release/SHA256SUMS.asc" "$work/release/SHA256SUMS"
fi

mkdir -p "$(dirname "$folder")"
mv "$work/release" "$folder"
echo "release: $folder"
