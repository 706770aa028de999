#!/usr/bin/env bash
# Holds pool members in a provisioning status while load balancer, listener and pool go ACTIVE as ever: what
# amphorav2 did in the field. Octavia's flows run untouched; a trigger in its database keeps the row from
# becoming ACTIVE. Usage:
#   hold.sh ROOT set NAME_SUFFIX STATUS    members whose name ends in NAME_SUFFIX turn STATUS where they would turn ACTIVE
#   hold.sh ROOT now NAME_SUFFIX STATUS    the same, and those that are ACTIVE already turn STATUS at once
#   hold.sh ROOT release NAME_SUFFIX       lets them go: held ones turn ACTIVE at once, as after a failover
#   hold.sh ROOT clear                     removes trigger and table
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${3:-x}${4:-X}" in *[!A-Za-z0-9_.-]*) die "NAME_SUFFIX and STATUS take letters, digits and _.- only";; esac
install() {
  sql octavia -e "CREATE TABLE IF NOT EXISTS held_member (suffix VARCHAR(255) PRIMARY KEY, status VARCHAR(16) NOT NULL)"
  sql octavia -e "
    DELIMITER //
    CREATE OR REPLACE TRIGGER hold_member BEFORE UPDATE ON member FOR EACH ROW
    BEGIN
      DECLARE held VARCHAR(16) DEFAULT NULL;
      IF NEW.provisioning_status = 'ACTIVE' THEN
        SELECT status INTO held FROM held_member WHERE NEW.name LIKE CONCAT('%', suffix) LIMIT 1;
        IF held IS NOT NULL THEN SET NEW.provisioning_status = held; END IF;
      END IF;
    END//"
}
case "${2:-}" in
  set) install; sql octavia -e "REPLACE INTO held_member VALUES ('$3', '$4')";;
  now) install; sql octavia -e "REPLACE INTO held_member VALUES ('$3', '$4');
         UPDATE member SET provisioning_status = '$4' WHERE name LIKE '%$3' AND provisioning_status = 'ACTIVE'";;
  release) sql octavia -e "DELETE FROM held_member WHERE suffix = '$3';
         UPDATE member SET provisioning_status = 'ACTIVE' WHERE name LIKE '%$3' AND provisioning_status <> 'PENDING_DELETE'";;
  clear) sql octavia -e "DROP TRIGGER IF EXISTS hold_member; DROP TABLE IF EXISTS held_member";;
  *) sed -n '2,9p' "$0"; exit 2;;
esac
