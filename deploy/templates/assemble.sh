#!/usr/bin/env bash
# Puts the cluster templates of a release together: one file for each flavor, as clusterctl wants them.
# Usage: deploy/templates/assemble.sh FOLDER
set -euo pipefail
[ $# = 1 ] && [ -d "$1" ] || { echo "usage: deploy/templates/assemble.sh FOLDER, a folder that exists" >&2; exit 1; }
to=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"

documents() { # documents FILE...: the files as one YAML stream
  local first=yes file
  for file in "$@"; do
    [ -n "$first" ] || echo ---
    first=
    cat "$file"
  done
}

for flavor in flavors/*.yaml; do
  name=$(basename "$flavor" .yaml)
  secret=(secret.yaml)
  # This flavor's credentials are in an OpenStackClusterIdentity, which exists before the cluster.
  [ "$name" != identity ] || secret=()
  [ "$name" = default ] && target=cluster-template.yaml || target=cluster-template-$name.yaml
  documents "${secret[@]}" cluster.yaml "$flavor" machines.yaml >"$to/$target"
done
documents secret.yaml topology.yaml >"$to/cluster-template-topology.yaml"
cp clusterclass.yaml "$to/clusterclass-openstack-default.yaml"
