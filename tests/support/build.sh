#!/usr/bin/env bash
# Builds the real programs that the tests run against, once, into the user's cache folder.
#
#   tests/support/build.sh [etcd] [kube-apiserver] [kube-controller-manager] [kubectl] [cluster-api] [cluster-api-oldest] [clusterctl]
#                      [capo] [kstatus] [kube-state-metrics] [glua] [prometheus] [haproxy] [grafana]
#                                                                            default: etcd kube-apiserver
#
# glua is the Lua of Argo CD.
# cluster-api is three managers (cluster-api-core, cluster-api-bootstrap, cluster-api-control-plane) and the folder
# cluster-api-manifests with their definitions and webhook configurations, as they are in the module.
# cluster-api-oldest is the same of the oldest supported Cluster API; with KUBEBUILDER_ASSETS set it is built all the same.
# clusterctl comes with the folder cluster-api-components: what it installs of Cluster API.
# capo is the manager of Cluster API Provider OpenStack (the Go one, whose installations are taken over) and the folder
# capo-manifests with its definitions, its webhook configuration, the one definition of another project that it needs, and
# all objects of its release (components.yaml), which kubectl puts together.
# kstatus is a program of this folder around the library of that name: its own source is part of what names its folder.
# What is built, and from which versions, is pinned by the go.mod and go.sum of each folder in tests/support/programs.
# Binaries land in ${XDG_CACHE_HOME:-$HOME/.cache}/capo-rs/<program>-<version>-<os>-<architecture>/ and are kept there;
# what is there is not built again. With KUBEBUILDER_ASSETS set, nothing is built: the binaries in that folder are used.
# prometheus (and promtool) and haproxy are Debian's packages, unpacked; those on the PATH that are new enough are used
# instead. The folder lib beside haproxy has the libraries that this system lacks. grafana is
# Grafana's types of its boards with a TypeScript compiler, from npm.
# With an empty Go build cache kube-apiserver takes about six minutes of processor time and 1.8 GB of memory, the
# programs of Cluster API four minutes and 1.1 GB, capo two and a half minutes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/capo-rs
die() { echo "tests/support/build.sh: $*" >&2; exit 1; }

[ $# -gt 0 ] || set -- etcd kube-apiserver
managers="cluster-api-core cluster-api-bootstrap cluster-api-control-plane"
manifests=cluster-api-manifests
components=cluster-api-components
capo_manifests=capo-manifests
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  others=()
  for program in "$@"; do
    case $program in prometheus | haproxy | grafana | cluster-api-oldest) others+=("$program"); continue ;; esac
    [ "$program" = cluster-api ] && program="$managers $manifests"
    [ "$program" = capo ] && program="capo $capo_manifests"
    [ "$program" = clusterctl ] && program="clusterctl $components"
    for one in $program; do
      [ -x "$KUBEBUILDER_ASSETS/$one" ] || die "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, but there is no $one in it"
    done
  done
  set -- ${others[@]+"${others[@]}"}
fi

# The pinned version of a module, read without Go so that a warm cache needs no Go at all.
pinned() { awk -v module="$2" '{ sub(/^require /, "") } $1 == module && $2 ~ /^v/ { print $2; exit }' "$here/programs/$1/go.mod"; }
platform() { echo "linux-$(uname -m)"; }

build() { # build <program> <folder in programs> <pinned module> <import path> [linker flags] [what else names it]
  local program=$1 module_dir=$here/programs/$2 version target
  version=$(pinned "$2" "$3")
  [ -n "$version" ] || die "no version of $3 in $module_dir/go.mod"
  target=$cache/$2-$version${6:+-$6}-$(platform)
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

build_kubernetes() { # build_kubernetes <program>
  local version stamp minor
  version=$(pinned kubernetes k8s.io/kubernetes)
  stamp=k8s.io/component-base/version
  minor=${version#v1.}
  build "$1" kubernetes k8s.io/kubernetes "k8s.io/kubernetes/cmd/$1" \
    "-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*} -X $stamp.gitTreeState=clean"
}

build_cluster_api() { # build_cluster_api <program> <import path below the module> [folder in programs]
  local module=sigs.k8s.io/cluster-api folder=${3:-cluster-api} version stamp minor
  version=$(pinned "$folder" $module)
  stamp=$module/version
  minor=${version#v1.}
  build "$1" "$folder" $module "$module${2:+/$2}" \
    "-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*} -X $stamp.gitTreeState=clean"
}

# <components>/{core,bootstrap,control-plane,metadata}.yaml, put together by kubectl's kustomize as Cluster API's releases are.
write_components() {
  local module=sigs.k8s.io/cluster-api version target source part kubectl
  version=$(pinned cluster-api $module)
  target=$cache/cluster-api-$version-$(platform)
  [ -d "$target/$components" ] && return 0
  build_kubernetes kubectl
  kubectl=$cache/kubernetes-$(pinned kubernetes k8s.io/kubernetes)-$(platform)/kubectl
  (
    flock 9
    [ -d "$target/$components" ] && exit 0
    cd "$here/programs/cluster-api"
    source=$(GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' $module)
    rm -rf "$target/$components.new"
    mkdir -p "$target/$components.new"
    for part in core:core bootstrap:bootstrap/kubeadm control-plane:controlplane/kubeadm; do
      "$kubectl" kustomize "$source/${part#*:}/config/default" >"$target/$components.new/${part%%:*}.yaml"
    done
    cp "$source/metadata.yaml" "$target/$components.new/"
    chmod -R u+w "$target/$components.new"
    mv "$target/$components.new" "$target/$components"
  ) 9>"$target/.lock"
}

# <manifests>/<manager>/{crds/*.yaml,webhooks.yaml}, out of the same module as the managers.
copy_manifests() { # copy_manifests <folder in programs> <folder of the core manager in the module>
  local module=sigs.k8s.io/cluster-api version target source part
  version=$(pinned "$1" $module)
  target=$cache/$1-$version-$(platform)
  [ -d "$target/$manifests" ] && return 0
  (
    flock 9
    [ -d "$target/$manifests" ] && exit 0
    cd "$here/programs/$1"
    source=$(GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' $module)
    rm -rf "$target/$manifests.new"
    for part in "core:$2" bootstrap:bootstrap/kubeadm control-plane:controlplane/kubeadm; do
      mkdir -p "$target/$manifests.new/${part%%:*}/crds"
      cp "$source/${part#*:}"/config/crd/bases/*.yaml "$target/$manifests.new/${part%%:*}/crds/"
      cp "$source/${part#*:}/config/webhook/manifests.yaml" "$target/$manifests.new/${part%%:*}/webhooks.yaml"
    done
    chmod -R u+w "$target/$manifests.new"
    mv "$target/$manifests.new" "$target/$manifests"
  ) 9>"$target/.lock"
}

build_capo() {
  local module=sigs.k8s.io/cluster-api-provider-openstack version minor
  version=$(pinned capo $module)
  minor=${version#v0.}
  build capo capo $module $module \
    "-X $module/version.gitVersion=$version -X $module/version.gitMajor=0 -X $module/version.gitMinor=${minor%%.*} -X $module/version.gitTreeState=clean"
}

# <capo-manifests>/{crds/*.yaml,webhooks.yaml,components.yaml}. Without the definition of Image its manager does not start.
copy_capo_manifests() {
  local module=sigs.k8s.io/cluster-api-provider-openstack images=github.com/k-orc/openstack-resource-controller/v2
  local version target source
  version=$(pinned capo $module)
  target=$cache/capo-$version-$(platform)
  [ -f "$target/$capo_manifests/components.yaml" ] && return 0
  build_kubernetes kubectl
  (
    flock 9
    [ -f "$target/$capo_manifests/components.yaml" ] && exit 0
    cd "$here/programs/capo"
    rm -rf "$target/$capo_manifests.new"
    mkdir -p "$target/$capo_manifests.new/crds"
    source=$(GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' $module)
    cp "$source"/config/crd/bases/*.yaml "$target/$capo_manifests.new/crds/"
    cp "$source/config/webhook/manifests.yaml" "$target/$capo_manifests.new/webhooks.yaml"
    "$cache/kubernetes-$(pinned kubernetes k8s.io/kubernetes)-$(platform)/kubectl" kustomize "$source/config/default" >"$target/$capo_manifests.new/components.yaml" 2>/dev/null
    source=$(GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' $images)
    cp "$source/config/crd/bases/openstack.k-orc.cloud_images.yaml" "$target/$capo_manifests.new/crds/"
    chmod -R u+w "$target/$capo_manifests.new"
    rm -rf "${target:?}/$capo_manifests"
    mv "$target/$capo_manifests.new" "$target/$capo_manifests"
  ) 9>"$target/.lock"
}

# The oldest versions: of Prometheus the first one that knows keep_firing_for, of HAProxy one whose master shows its
# reloads as the tests read them. The tests ask for the same.
prometheus_at_least=2.42
haproxy_at_least=2.6
at_least() { # at_least <program> <flag that prints its version> <oldest version>: whether it is new enough
  local version
  version=$("$1" "$2" 2>&1 | sed -n 's/.*version \([0-9.]*\).*/\1/p' | head -n 1)
  [ -n "$version" ] && [ "$(printf '%s\n' "$3" "$version" | sort -V | head -n 1)" = "$3" ]
}

# fetch_debian <program> <flag that prints its version> <oldest version>: Debian's package, unless the PATH has a program that is new
# enough. download_<program> leaves packages in the current folder, and keep_<program> moves what is needed of the unpacked ones.
fetch_debian() {
  local program=$1 flag=$2 oldest=$3 target work package
  target=$cache/$program-$oldest-$(platform)
  [ -x "$target/$program" ] && return 0
  command -v "$program" >/dev/null && at_least "$program" "$flag" "$oldest" && { [ "$program" != prometheus ] || command -v promtool >/dev/null; } && return 0
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    die "there is no $program $oldest or later on the PATH, and no apt to fetch Debian's: install it (Prometheus with promtool)"
  mkdir -p "$target"
  (
    flock 9
    [ -x "$target/$program" ] && exit 0
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    mkdir partial
    "download_$program" >/dev/null 2>&1 || { apt-get update -qq && "download_$program" >&2; } ||
      die "apt-get can't download $program: run apt-get update as root, or put $program $oldest or later on the PATH (Prometheus with promtool)"
    for package in *.deb; do dpkg-deb -x "$package" .; done
    "keep_$program" "$target"
    LD_LIBRARY_PATH=$target/lib at_least "$target/$program" "$flag" "$oldest" || { rm "$target/$program"; die "the $program of this Debian is older than $oldest"; }
  ) 9>"$target/.lock"
}

download_prometheus() { apt-get download -qq prometheus; }
keep_prometheus() { mv usr/bin/promtool usr/bin/prometheus "$1/"; }

# HAProxy and what it depends on that is not installed. Nothing is installed, so that no service starts.
download_haproxy() { apt-get install -qq -y --no-install-recommends --download-only -o Debug::NoLocking=true -o Dir::Cache::archives="$PWD" haproxy; }
keep_haproxy() {
  mkdir -p "$1/lib"
  find usr/lib -name '*.so*' -exec cp -P {} "$1/lib/" \;
  mv usr/sbin/haproxy "$1/"
}

fetch_grafana() {
  local target
  target=$cache/grafana-$(sha256sum "$here/programs/grafana/package-lock.json" | cut -c 1-12)
  [ -d "$target/node_modules" ] && return 0
  if ! command -v npm >/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
      die "there is no npm on the PATH: install Node.js 18 or later with npm (Debian: apt-get install nodejs npm)"
    { apt-get install -qq -y --no-install-recommends nodejs npm || { apt-get update -qq && apt-get install -qq -y --no-install-recommends nodejs npm; }; } >&2
  fi
  mkdir -p "$target"
  (
    flock 9
    [ -d "$target/node_modules" ] && exit 0
    cp "$here"/programs/grafana/package*.json "$target/"
    cd "$target"
    npm ci --silent --no-audit --no-fund --ignore-scripts >&2 || { rm -rf node_modules; exit 1; }
  ) 9>"$target/.lock"
}

for program in "$@"; do
  case $program in
    prometheus) fetch_debian prometheus --version $prometheus_at_least ;;
    haproxy) fetch_debian haproxy -v $haproxy_at_least ;;
    grafana) fetch_grafana ;;
    etcd) build etcd etcd go.etcd.io/etcd/server/v3 go.etcd.io/etcd/server/v3 ;;
    kube-apiserver | kube-controller-manager | kubectl) build_kubernetes "$program" ;;
    cluster-api)
      build_cluster_api cluster-api-core core
      build_cluster_api cluster-api-bootstrap bootstrap/kubeadm
      build_cluster_api cluster-api-control-plane controlplane/kubeadm
      copy_manifests cluster-api core
      ;;
    cluster-api-oldest)
      build_cluster_api cluster-api-core "" cluster-api-oldest
      build_cluster_api cluster-api-bootstrap bootstrap/kubeadm cluster-api-oldest
      build_cluster_api cluster-api-control-plane controlplane/kubeadm cluster-api-oldest
      copy_manifests cluster-api-oldest .
      ;;
    capo)
      build_capo
      copy_capo_manifests
      ;;
    clusterctl)
      build_cluster_api clusterctl cmd/clusterctl
      write_components
      ;;
    kstatus)
      source=$(cd "$here/programs/kstatus" && cat go.mod go.sum main.go | sha256sum)
      build kstatus kstatus sigs.k8s.io/cli-utils . "" "${source:0:12}"
      ;;
    kube-state-metrics) build "$program" "$program" k8s.io/kube-state-metrics/v2 k8s.io/kube-state-metrics/v2 ;;
    glua) build "$program" "$program" github.com/yuin/gopher-lua github.com/yuin/gopher-lua/cmd/glua ;;
    *) die "unknown program $program; known: etcd, kube-apiserver, kube-controller-manager, kubectl, cluster-api, cluster-api-oldest, capo, clusterctl, kstatus, kube-state-metrics, glua, prometheus, haproxy, grafana" ;;
  esac
done
