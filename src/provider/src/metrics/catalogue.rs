//! Every metric family of this program: name, kind, labels, help, the largest number of series, and the condition under
//! which it appears. The code that counts, the reference page and the tests of boards and rules all use this table.

// The families' meanings are texts for Prometheus: what stands between angle brackets is a value, not HTML.
#![allow(rustdoc::invalid_html_tags)]

use super::buckets::{CALLS, DEFAULT, HOLDS, KUBERNETES, PASSES, PAUSES, QUEUES, SETTLING, WAITS};

/// A metric family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// The family's name.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// The meaning of the family, in a sentence.
    pub help: &'static str,
    /// How many series it has at most.
    pub bound: &'static str,
    /// The event after which the family appears. Empty if every scrape of a leader that tracks a load balancer has it.
    pub once: &'static str,
}

/// How a family's values are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Grows until the process restarts.
    Counter,
    /// The current value.
    Gauge,
    /// Counts by size, with these upper bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The name of the kind in the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

use Kind::{Counter, Gauge, Histogram};

macro_rules! catalogue {
    ($($constant:ident $kind:expr; $name:literal [$($label:literal)*] $bound:literal $($once:literal)?; $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: Metric = Metric {
            name: $name, kind: $kind, labels: &[$($label),*], help: $help, bound: $bound, once: concat!($($once)?),
        };)*
        /// Every family, in the order of the reference page.
        pub const ALL: &[&Metric] = &[$(&$constant),*];
    };
}

catalogue! {
    MEMBER_PROVISIONING Gauge; "capo_lb_member_provisioning_status" ["cluster_namespace" "cluster_name" "machine" "port" "status"] "8 per shown member" "a member is expected or found";
        "Provisioning status of a member in Octavia: 1 for the one it is in.";
    MEMBER_OPERATING Gauge; "capo_lb_member_operating_status" ["cluster_namespace" "cluster_name" "machine" "port" "status"] "7 per shown member" "a member is expected or found";
        "Operating status of a member in Octavia: 1 for the one it is in.";
    MEMBER_SINCE Gauge; "capo_lb_member_state_since_timestamp_seconds" ["cluster_namespace" "cluster_name" "machine" "port"] "1 per shown member" "a member is expected or found";
        "Time since which a member has its provisioning status.";
    MEMBER_INFO Gauge; "capo_lb_member_info" ["cluster_namespace" "cluster_name" "machine" "port" "member_id" "pool_id" "address"] "1 per shown member" "a member is expected or found";
        "Identity of a member in Octavia; always 1.";
    MEMBERS Gauge; "capo_lb_members" ["cluster_namespace" "cluster_name" "port" "status"] "8 per port of a cluster" "a member is expected or found";
        "Members of a port by provisioning status.";
    MEMBERS_STUCK Gauge; "capo_lb_members_stuck" ["cluster_namespace" "cluster_name" "port"] "1 per port of a cluster" "a member is expected or found";
        "Members of a port that have been pending for longer than the alert threshold.";
    MEMBER_ALERT_AFTER Gauge; "capo_lb_member_alert_threshold_seconds" [] "1";
        "How long a member may be pending before an alert fires (--member-alert-after).";
    LB_PROVISIONING Gauge; "capo_lb_provisioning_status" ["cluster_namespace" "cluster_name" "status"] "8 per cluster";
        "Provisioning status of the API server's load balancer: 1 for the one it is in.";
    LB_OPERATING Gauge; "capo_lb_operating_status" ["cluster_namespace" "cluster_name" "status"] "7 per cluster";
        "Operating status of the API server's load balancer: 1 for the one it is in.";
    LB_OBSERVED Gauge; "capo_lb_last_observation_timestamp_seconds" ["cluster_namespace" "cluster_name"] "1 per cluster" "the load balancer was read";
        "Time of the last complete read of the load balancer.";
    LB_INTERVAL Gauge; "capo_lb_observation_interval_seconds" ["cluster_namespace" "cluster_name"] "1 per cluster";
        "The planned time between two reads of the load balancer. A gate holds as stale when the last read is older than three of these, and older than 15 s.";
    LB_INITIALIZED Gauge; "capo_lb_control_plane_initialized" ["cluster_namespace" "cluster_name"] "1 per cluster";
        "1 once the API server behind the load balancer has worked.";
    TIME_TO_ACTIVE Histogram(SETTLING); "capo_lb_member_time_to_active_seconds" ["provider" "operation"] "15 for each of 4 providers and 2 operations" "a member became ACTIVE";
        "Time from the request to the first read in which the member was ACTIVE.";
    TIME_TO_REMOVED Histogram(SETTLING); "capo_lb_member_time_to_removed_seconds" ["provider"] "15 for each of 4 providers" "a member was removed";
        "Time from the request to the read that confirmed the member's absence.";
    TRANSITIONS Counter; "capo_lb_member_transitions_total" ["from" "to" "provider"] "about 60" "a member changed";
        "Changes of members' provisioning status between two reads.";
    OPERATIONS Counter; "capo_lb_member_operations_total" ["operation" "outcome"] "28";
        "Operations on members by Octavia's response.";

    GATE_STATE Gauge; "capo_gate_state" ["cluster_namespace" "cluster_name" "gate" "state"] "12 per cluster";
        "State of a gate over all machines of a cluster: 1 for the one it is in.";
    GATE_REASON Gauge; "capo_gate_held_reason" ["cluster_namespace" "cluster_name" "machine" "gate" "reason"] "1 per held gate of a machine" "a gate is held";
        "Why a machine's gate is held; absent while it is open.";
    GATE_SINCE Gauge; "capo_gate_held_since_timestamp_seconds" ["cluster_namespace" "cluster_name" "machine" "gate"] "1 per held gate of a machine" "a gate is held";
        "Time since which a machine's gate is held; absent while it is open.";
    DECISIONS Counter; "capo_gate_decisions_total" ["gate" "decision" "reason"] "under 60" "a gate decided";
        "Decisions of the gates that changed.";
    HOLD_DURATION Histogram(HOLDS); "capo_gate_hold_duration_seconds" ["gate" "reason"] "12 for each of 3 gates and 18 reasons" "a hold ended";
        "How long gates were held.";

    REQUESTS Counter; "capo_openstack_api_requests_total" ["request"] "about 80" "OpenStack was called";
        "Requests to OpenStack.";
    REQUEST_ERRORS Counter; "capo_openstack_api_request_errors_total" ["request"] "about 80" "OpenStack was called";
        "Requests to OpenStack that failed; an object that does not exist or is locked is no failure.";
    REQUEST_DURATION Histogram(DEFAULT); "capo_openstack_api_request_duration_seconds" ["request"] "14 for each of about 80 requests" "OpenStack was called";
        "Duration of requests to OpenStack.";
    RESPONSES Counter; "capo_openstack_api_responses_total" ["cloud" "api" "method" "code"] "about 60 per cloud; clouds after the 50th are called other" "OpenStack was called";
        "Responses of OpenStack by HTTP status, or timeout, transport, parse.";
    IN_FLIGHT Gauge; "capo_openstack_api_inflight_requests" ["api"] "6";
        "Requests to OpenStack in flight.";
    RETRIES Counter; "capo_openstack_api_retries_total" ["api" "cause"] "36";
        "Requests of which the previous one of the same name to that cloud failed, by the cause of its failure. Requests of one name about different objects are not told apart.";
    REFUSED Counter; "capo_openstack_api_refused_total" ["cloud" "api"] "6 per cloud" "OpenStack was called";
        "Requests that were not sent because the service is throttling requests or does not answer.";
    LIMITER_WAIT Histogram(WAITS); "capo_openstack_ratelimiter_wait_seconds" ["cloud" "api"] "16 for each of 6 services per cloud" "OpenStack was called";
        "How long requests waited for the request budget.";
    LIMITER_QUEUE Gauge; "capo_openstack_ratelimiter_queue_length" ["cloud" "api"] "6 per cloud" "a cloud is in use";
        "Requests that wait for the request budget.";
    LIMITER_LIMIT Gauge; "capo_openstack_ratelimiter_limit_per_second" ["cloud" "api"] "6 per cloud" "a cloud is in use";
        "Requests per second that the request budget allows in the long run, over all credentials of a cloud.";
    LIMITER_TOKENS Gauge; "capo_openstack_ratelimiter_tokens" ["cloud" "api"] "6 per cloud" "a cloud is in use";
        "Requests that the request budget allows at once at this moment.";
    THROTTLED Counter; "capo_openstack_throttled_total" ["cloud" "api"] "6 per cloud" "OpenStack was called";
        "Responses that throttled requests.";
    THROTTLED_UNTIL Gauge; "capo_openstack_throttled_until_timestamp_seconds" ["cloud" "api"] "6 per cloud" "a service throttled requests";
        "End of the last pause that a service requested.";
    RETRY_AFTER Histogram(PAUSES); "capo_openstack_retry_after_seconds" ["api"] "12 for each of 6 services" "a service sent Retry-After";
        "Values of Retry-After that were followed.";
    TOKEN_REQUESTS Counter; "capo_openstack_token_requests_total" ["cloud" "outcome"] "4 per cloud" "a sign-in ended";
        "Sign-ins by outcome.";
    TOKEN_EXPIRY Gauge; "capo_openstack_token_expiry_timestamp_seconds" ["cloud"] "1 per cloud" "a sign-in succeeded";
        "Expiry of the newest token of a cloud.";

    POLL_CYCLES Counter; "capo_poll_cycles_total" ["kind" "outcome"] "6";
        "Reads of OpenStack objects that change by themselves.";
    POLL_DURATION Histogram(CALLS); "capo_poll_duration_seconds" ["kind"] "14 for each of 3 kinds";
        "Duration of reads of OpenStack objects that change by themselves.";
    POLL_TARGETS Gauge; "capo_poll_targets" ["kind"] "3";
        "OpenStack objects that are read regularly because they change by themselves.";
    POLL_INTERVAL Gauge; "capo_poll_interval_seconds" ["kind"] "3";
        "The longest planned time between two reads of one of them.";
    WATCH_EVENTS Counter; "capo_watch_events_total" ["kind"] "1 per watched kind, about 10";
        "Events of the Kubernetes watches.";
    WATCH_RESTARTS Counter; "capo_watch_restarts_total" ["kind" "reason"] "4 per watched kind";
        "Kubernetes watches that ended and were started again.";
    EVENTS Counter; "capo_events_emitted_total" ["reason" "type"] "about 60" "an event was written";
        "Kubernetes events that were queued to be written.";
    LOG_MESSAGES Counter; "capo_log_messages_total" ["level"] "5";
        "Lines in the log.";
    CERTIFICATE_END Gauge; "capo_webhook_certificate_not_after_timestamp_seconds" [] "1" "webhooks are served";
        "Expiry of the certificate of the webhook server.";
    BUILD Gauge; "capo_build_info" ["version" "revision" "rustc" "target"] "1";
        "Version and build of this program; always 1.";
    FEATURES Gauge; "capo_feature_enabled" ["name" "stage"] "5";
        "1 for features that are on.";
    SUPPRESSED Gauge; "capo_metrics_member_detail_suppressed" [] "1";
        "1 while some members are counted without series of their own.";
    RUNTIME_WORKERS Gauge; "capo_runtime_workers" [] "1";
        "Threads that run tasks.";
    RUNTIME_BUSY Counter; "capo_runtime_busy_seconds_total" [] "1";
        "Time that all of these threads spent running tasks.";

    PASSES_TOTAL Counter; "controller_runtime_reconcile_total" ["controller" "result"] "4 per controller";
        "Passes by result.";
    PASS_ERRORS Counter; "controller_runtime_reconcile_errors_total" ["controller"] "1 per controller";
        "Passes that failed.";
    PASS_TERMINAL_ERRORS Counter; "controller_runtime_terminal_reconcile_errors_total" ["controller"] "1 per controller";
        "Passes that failed finally: always 0, because every failure is retried.";
    PASS_PANICS Counter; "controller_runtime_reconcile_panics_total" ["controller"] "1 per controller";
        "Passes that panicked. A panic ends its pass only; it is logged and shown on the object.";
    PASS_TIMEOUTS Counter; "controller_runtime_reconcile_timeouts_total" ["controller"] "1 per controller";
        "Passes that were aborted: always 0, because each call in a pass has a time limit of its own.";
    PASS_DURATION Histogram(PASSES); "controller_runtime_reconcile_time_seconds" ["controller"] "43 per controller";
        "Duration of passes.";
    MAX_PASSES Gauge; "controller_runtime_max_concurrent_reconciles" ["controller"] "1 per controller";
        "Passes that may run at once.";
    ACTIVE_PASSES Gauge; "controller_runtime_active_workers" ["controller"] "1 per controller";
        "Passes that run.";
    QUEUE_DEPTH Gauge; "workqueue_depth" ["name" "controller" "priority"] "1 per controller";
        "Objects that wait for a pass.";
    QUEUE_ADDS Counter; "workqueue_adds_total" ["name" "controller"] "1 per controller";
        "Objects that were queued for a pass.";
    QUEUE_RETRIES Counter; "workqueue_retries_total" ["name" "controller"] "1 per controller";
        "Objects that were queued again because a pass failed.";
    QUEUE_DURATION Histogram(QUEUES); "workqueue_queue_duration_seconds" ["name" "controller"] "15 per controller";
        "How long objects waited for their pass.";
    WORK_DURATION Histogram(QUEUES); "workqueue_work_duration_seconds" ["name" "controller"] "15 per controller";
        "Duration of passes.";
    UNFINISHED Gauge; "workqueue_unfinished_work_seconds" ["name" "controller"] "1 per controller";
        "Sum of the ages of all running passes.";
    LONGEST_RUNNING Gauge; "workqueue_longest_running_processor_seconds" ["name" "controller"] "1 per controller";
        "Age of the oldest running pass.";
    KUBERNETES_REQUESTS Counter; "rest_client_requests_total" ["code" "method" "host"] "about 30";
        "Requests to the Kubernetes API by HTTP status, or <error>.";
    KUBERNETES_DURATION Histogram(KUBERNETES); "rest_client_request_duration_seconds" ["verb" "host"] "15 for each of 5 verbs";
        "Time from a request to the Kubernetes API to the head of its response.";
    LEADS Gauge; "leader_election_master_status" ["name"] "1";
        "1 while this process holds the leader lease, or does not need it.";
    OPERATOR Gauge; "capo_operator_condition" ["condition" "status"] "12" "this process leads";
        "The state of all objects in four conditions: 1 for the current status of each.";
    WEBHOOK_REQUESTS Counter; "controller_runtime_webhook_requests_total" ["webhook" "code"] "about 20" "the API server called a webhook";
        "Webhook requests by HTTP status.";
    WEBHOOK_DURATION Histogram(DEFAULT); "controller_runtime_webhook_latency_seconds" ["webhook"] "14 per webhook" "the API server called a webhook";
        "Duration of webhook requests.";
    WEBHOOK_IN_FLIGHT Gauge; "controller_runtime_webhook_requests_in_flight" ["webhook"] "1 per webhook" "the API server called a webhook";
        "Webhook requests in flight.";
    CERTIFICATE_READS Counter; "certwatcher_read_certificate_total" [] "1";
        "Serving certificates that were read and used.";
    CERTIFICATE_ERRORS Counter; "certwatcher_read_certificate_errors_total" [] "1";
        "Serving certificates that could not be used.";
    PROCESS_CPU Counter; "process_cpu_seconds_total" [] "1";
        "Processor time that this process used.";
    PROCESS_RESIDENT Gauge; "process_resident_memory_bytes" [] "1";
        "Resident memory.";
    PROCESS_VIRTUAL Gauge; "process_virtual_memory_bytes" [] "1";
        "Virtual memory.";
    PROCESS_FILES Gauge; "process_open_fds" [] "1";
        "Open file descriptors.";
    PROCESS_MAX_FILES Gauge; "process_max_fds" [] "1";
        "File descriptors that this process may open.";
    PROCESS_START Gauge; "process_start_time_seconds" [] "1";
        "Start time of this process.";
}
