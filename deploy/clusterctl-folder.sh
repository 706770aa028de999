#!/usr/bin/env bash
# Writes what clusterctl reads of a release into a folder: components, metadata, cluster templates and the ClusterClass.
#
#   deploy/clusterctl-folder.sh PROGRAM IMAGE FOLDER
#
# PROGRAM is a capo-rs that runs on this machine, IMAGE the image of the release with its tag.
set -euo pipefail
[ $# = 3 ] && [ -x "$1" ] && [ -d "$3" ] || { echo "usage: deploy/clusterctl-folder.sh PROGRAM IMAGE FOLDER, a program and a folder that exist" >&2; exit 1; }
program=$(realpath "$1") image=$2 folder=$(realpath "$3")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"$program" manifests --with=crds --image="$image" >"$folder/infrastructure-components.yaml"
cp deploy/metadata.yaml "$folder/"
deploy/templates/assemble.sh "$folder"
