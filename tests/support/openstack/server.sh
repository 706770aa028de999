#!/usr/bin/env bash
# Writes the state of a server into Nova's database, as an operator does. Usage:
#   server.sh ROOT NAME VM_STATE           VM_STATE is active, error, soft-delete or another of Nova's vm_state values
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${2:-}/${3:-}" in */ | /* | *[!A-Za-z0-9_./-]*) sed -n '2,3p' "$0"; exit 2;; esac
sql nova -e "UPDATE instances SET vm_state = '$3', task_state = NULL WHERE display_name = '$2' AND deleted = 0"
