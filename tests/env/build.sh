#!/usr/bin/env bash
# Builds the real programs that the tests run against, once, into the user's cache folder.
#
#   tests/env/build.sh [etcd] [kube-apiserver] [kube-controller-manager]     default: etcd kube-apiserver
#
# What is built, and from which versions, is pinned by the go.mod and go.sum of each folder in tests/env/programs.
# Binaries land in ${XDG_CACHE_HOME:-$HOME/.cache}/capo-rs/<program>-<version>-<os>-<architecture>/ and are kept there;
# what is there is not built again. With KUBEBUILDER_ASSETS set, nothing is built: the binaries in that folder are used.
# kube-apiserver takes about six minutes of processor time and 1.8 GB of memory with an empty Go build cache.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/capo-rs
die() { echo "tests/env/build.sh: $*" >&2; exit 1; }

[ $# -gt 0 ] || set -- etcd kube-apiserver
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  for program in "$@"; do
    [ -x "$KUBEBUILDER_ASSETS/$program" ] || die "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, but there is no $program in it"
  done
  exit 0
fi

# The pinned version of a module, read without Go so that a warm cache needs no Go at all.
pinned() { awk -v module="$2" '{ sub(/^require /, "") } $1 == module { print $2; exit }' "$here/programs/$1/go.mod"; }
platform() { echo "linux-$(uname -m)"; }

build() { # build <program> <folder in programs> <pinned module> <import path> [linker flags]
  local program=$1 module_dir=$here/programs/$2 version target
  version=$(pinned "$2" "$3")
  [ -n "$version" ] || die "no version of $3 in $module_dir/go.mod"
  target=$cache/$2-$version-$(platform)
  [ -x "$target/$program" ] && return 0
  command -v go >/dev/null || die "$program $version is neither in $target nor buildable: no Go tool chain in PATH. Install Go 1.26, or set KUBEBUILDER_ASSETS to a folder that holds $program"
  mkdir -p "$target"
  echo "building $program $version into $target" >&2
  # One builder at a time: a second one waits and finds the result.
  (
    flock 9
    [ -x "$target/$program" ] && exit 0
    cd "$module_dir"
    GOFLAGS="${GOFLAGS:-} -buildvcs=false -mod=readonly" CGO_ENABLED=0 \
      go build -trimpath -ldflags "-s -w ${5:-}" -o "$target/$program.new" "$4"
    mv "$target/$program.new" "$target/$program"
  ) 9>"$target/.lock"
}

for program in "$@"; do
  case $program in
    etcd) build etcd etcd go.etcd.io/etcd/server/v3 go.etcd.io/etcd/server/v3 ;;
    kube-apiserver | kube-controller-manager)
      version=$(pinned kubernetes k8s.io/kubernetes)
      stamp=k8s.io/component-base/version
      minor=${version#v1.}
      build "$program" kubernetes k8s.io/kubernetes "k8s.io/kubernetes/cmd/$program" \
        "-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*} -X $stamp.gitTreeState=clean"
      ;;
    *) die "unknown program $program; known: etcd, kube-apiserver, kube-controller-manager" ;;
  esac
done
