//! Rollout gating: what is held, why, and what its members do.

use serde_json::json;

use super::{Board, Panel, annotation, variable};

const BAD: [(Option<f64>, &str); 2] = [(None, "green"), (Some(1.0), "orange")];

pub(super) fn board() -> Board {
    Board {
        uid: "capo-rollout-gate",
        title: "capo-rs / Rollout gates",
        description: "Control-plane rollouts that wait for their load balancer, with reasons and times.",
        variables: vec![
            variable("cluster_namespace", "Namespace", r#"capo_gate_state{job=~"$job"}"#),
            variable("cluster_name", "Cluster", r#"capo_gate_state{job=~"$job",cluster_namespace=~"$ns"}"#),
        ]
        .into_iter()
        .zip(["ns", "wc"])
        .map(|(mut variable, name)| {
            variable["name"] = json!(name);
            variable
        })
        .collect(),
        annotations: vec![annotation(
            "Gate became Held",
            "orange",
            r#"(max by ($K) (capo_gate_state{W,state="Held"}) == 1) unless (max by ($K) (capo_gate_state{W,state="Held"} offset 1m) == 1)"#,
            "{{cluster_namespace}}/{{cluster_name}}: {{gate}} is held",
        )],
        panels: vec![
            Panel::stat("Held gates", "short", "Gates that hold a machine now.")
                .thresholds(&BAD)
                .query(r#"count(max by ($K) (capo_gate_state{W,state="Held"}) == 1) or vector(0)"#, "held"),
            Panel::stat("Members not ACTIVE", "short", "Members that are expected or exist and that Octavia has not provisioned.")
                .thresholds(&BAD)
                .query(r#"sum(max by (cluster_namespace, cluster_name, port, status) (capo_lb_members{W,status!="ACTIVE"}))"#, "members"),
            Panel::stat("Oldest pending member", "s", "Age of the oldest pending member. Empty while no member is pending.")
                .thresholds(&[(None, "green"), (Some(120.0), "orange"), (Some(720.0), "red")])
                .query(
                    r#"max(time() - max by ($M) (capo_lb_member_state_since_timestamp_seconds{W}) and on ($M) max by ($M) (capo_lb_member_provisioning_status{W,status=~"PENDING_.*"}) == 1)"#,
                    "pending for",
                ),
            Panel::stat("Time to ACTIVE", "s", "From the request to the first read in which the member was ACTIVE: median and 95th percentile.")
                .size(12, 4)
                .query("histogram_quantile(0.5, sum by (le, provider) (increase(capo_lb_member_time_to_active_seconds_bucket{S}[$__range])))", "{{provider}} p50")
                .query("histogram_quantile(0.95, sum by (le, provider) (increase(capo_lb_member_time_to_active_seconds_bucket{S}[$__range])))", "{{provider}} p95"),
            Panel::timeline(
                "Gates",
                "Every gate of every cluster: admission of new machines, release of old ones, the finalizer of deleted ones. From the recording rules.",
                &[("Unknown", "text"), ("Open", "green"), ("Held", "orange"), ("Bypassed", "purple")],
            )
            .query(
                r#"max by ($K) (namespace_cluster_gate:capo_gate_state:code{job=~"$job",cluster_namespace=~"$ns",cluster_name=~"$wc"})"#,
                "{{cluster_namespace}}/{{cluster_name}} {{gate}}",
            ),
            Panel::timeline(
                "Members",
                "Provisioning status of every member, by machine and port. From the recording rules.",
                &[
                    ("", "transparent"),
                    ("ACTIVE", "green"),
                    ("PENDING_CREATE", "yellow"),
                    ("PENDING_UPDATE", "yellow"),
                    ("PENDING_DELETE", "blue"),
                    ("ERROR", "red"),
                    ("DELETED", "text"),
                    ("Missing", "purple"),
                    ("Unknown", "text"),
                ],
            )
            .query(
                r#"max by ($M) (namespace_cluster_machine_port:capo_lb_member_provisioning_status:code{job=~"$job",cluster_namespace=~"$ns",cluster_name=~"$wc"})"#,
                "{{machine}}:{{port}}",
            ),
            Panel::table("Hold reasons", "none", "What each held gate waits for, and for how long. The reasons are those of the conditions.")
                .size(24, 7)
                .query("max by (cluster_namespace, cluster_name, machine, gate, reason) (capo_gate_held_reason{W}) == 1", "")
                .query("time() - max by (cluster_namespace, cluster_name, machine, gate) (capo_gate_held_since_timestamp_seconds{W})", "")
                .transform("merge", json!({}))
                .transform(
                    "organize",
                    json!({
                        "excludeByName": {"Time": true, "Value #A": true}, "includeByName": {}, "indexByName": {},
                        "renameByName": {
                            "Value #B": "Held for", "cluster_name": "Cluster", "cluster_namespace": "Namespace",
                            "gate": "Gate", "machine": "Machine", "reason": "Reason",
                        },
                    }),
                )
                .column("Held for", "s"),
            matrix("Provisioning status", "Octavia's status of each member: machines down, ports across.", "capo_lb_member_provisioning_status"),
            matrix("Operating status", "The health monitor's status of each member: machines down, ports across.", "capo_lb_member_operating_status"),
            Panel::lines("ACTIVE members per port", "percentunit", "Share of the members of each port that are ACTIVE, over all chosen clusters.")
                .share()
                .query(
                    r#"sum by (port) (max by (cluster_namespace, cluster_name, port) (capo_lb_members{W,status="ACTIVE"})) / sum by (port) (max by (cluster_namespace, cluster_name, port, status) (capo_lb_members{W}))"#,
                    "port {{port}}",
                ),
            Panel::lines("Observation age", "s", "Age of the last complete read of each load balancer. Gates hold when it is older than three of the planned intervals.")
                .query("time() - max by (cluster_namespace, cluster_name) (capo_lb_last_observation_timestamp_seconds{W})", "{{cluster_namespace}}/{{cluster_name}}"),
            Panel::heatmap("Time to ACTIVE over time", "How long members took from the request to ACTIVE.")
                .query("sum by (le) (increase(capo_lb_member_time_to_active_seconds_bucket{S}[R]))", "{{le}}"),
            Panel::bars("Transitions", "short", "Changes of members' provisioning status, by the new status.")
                .query("sum by (to) (increase(capo_lb_member_transitions_total{S}[R]))", "{{to}}"),
            Panel::bars("Holds", "short", "Gates that began to hold, or that hold for another reason.")
                .size(24, 7)
                .query(r#"sum by (gate, reason) (increase(capo_gate_decisions_total{S,decision="Held"}[R]))"#, "{{gate}} {{reason}}"),
        ],
    }
}

fn matrix(title: &'static str, description: &'static str, metric: &str) -> Panel {
    Panel::table(title, "none", description)
        .query(&format!("max by ($M, status) ({metric}{{W}}) == 1"), "")
        .transform(
            "groupingToMatrix",
            json!({"rowField": "machine", "columnField": "port", "valueField": "status", "emptyValue": "empty"}),
        )
}
