#!/usr/bin/env bash
# Holds pool members in a provisioning status while load balancer, listener and pool go ACTIVE as ever: what
# amphorav2 did in the field. Octavia's flows run untouched; a trigger in its database keeps the row from
# becoming ACTIVE. Usage:
#   hold.sh ROOT set NAME_SUFFIX STATUS    members whose name ends in NAME_SUFFIX turn STATUS where they would turn ACTIVE
#   hold.sh ROOT now NAME_SUFFIX STATUS    the same, and those that are ACTIVE already turn STATUS at once
#   hold.sh ROOT release NAME_SUFFIX       lets them go: held ones turn ACTIVE at once, as after a failover
#   hold.sh ROOT lose NAME_SUFFIX STATUS   the next write of ACTIVE to such a member becomes STATUS; those after it are as ever
#   hold.sh ROOT write NAME STATUS TABLE   writes the status of rows of this name, as an operator does (member, load_balancer)
#   hold.sh ROOT clear                     removes trigger and table
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${3:-x}${4:-X}${5:-x}" in *[!A-Za-z0-9_.-]*) die "names and STATUS take letters, digits and _.- only";; esac
install() {
  # times: how many writes are left that it is for; NULL for all.
  sql octavia -e "CREATE TABLE IF NOT EXISTS held_member (suffix VARCHAR(255) PRIMARY KEY, status VARCHAR(16) NOT NULL, times INT)"
  sql octavia -e "
    DELIMITER //
    CREATE OR REPLACE TRIGGER hold_member BEFORE UPDATE ON member FOR EACH ROW
    BEGIN
      DECLARE held VARCHAR(16) DEFAULT NULL;
      IF NEW.provisioning_status = 'ACTIVE' THEN
        SELECT status INTO held FROM held_member WHERE NEW.name LIKE CONCAT('%', suffix) AND (times IS NULL OR times > 0) LIMIT 1;
        IF held IS NOT NULL THEN
          SET NEW.provisioning_status = held;
          UPDATE held_member SET times = times - 1 WHERE NEW.name LIKE CONCAT('%', suffix);
        END IF;
      END IF;
    END//"
}
case "${2:-}" in
  set) install; sql octavia -e "REPLACE INTO held_member VALUES ('$3', '$4', NULL)";;
  lose) install; sql octavia -e "REPLACE INTO held_member VALUES ('$3', '$4', 1)";;
  write) sql octavia -e "UPDATE ${5:?TABLE} SET provisioning_status = '$4' WHERE name = '$3'";;
  now) install; sql octavia -e "REPLACE INTO held_member VALUES ('$3', '$4', NULL);
         UPDATE member SET provisioning_status = '$4' WHERE name LIKE '%$3' AND provisioning_status = 'ACTIVE'";;
  release) sql octavia -e "DELETE FROM held_member WHERE suffix = '$3';
         UPDATE member SET provisioning_status = 'ACTIVE' WHERE name LIKE '%$3' AND provisioning_status <> 'PENDING_DELETE'";;
  clear) sql octavia -e "DROP TRIGGER IF EXISTS hold_member; DROP TABLE IF EXISTS held_member";;
  *) sed -n '2,11p' "$0"; exit 2;;
esac
