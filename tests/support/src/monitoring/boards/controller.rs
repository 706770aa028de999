//! Health of the controller itself.

use super::{Board, Panel, annotation};

pub(super) fn board() -> Board {
    Board {
        uid: "capo-controller",
        title: "capo-rs / Controller",
        description: "The processes of capo-rs: leader, passes, queues, the Kubernetes API, webhooks, memory and processor.",
        variables: Vec::new(),
        annotations: vec![annotation(
            "The leader changed",
            "blue",
            "max by (instance) (changes(leader_election_master_status{S}[1m])) > 0",
            "{{instance}}",
        )],
        panels: vec![
            Panel::stat("Leader", "none", "The leading process. The other processes serve webhooks and wait for the lease.")
                .size(6, 4)
                .query("max by (instance) (leader_election_master_status{S}) == 1", "{{instance}}"),
            Panel::stat("Version", "none", "Processes by version.")
                .size(6, 4)
                .query("count by (version, revision) (capo_build_info{S})", "{{version}} {{revision}}"),
            Panel::stat("Up since", "s", "How long each process has been running.")
                .query("time() - max by (instance) (process_start_time_seconds{S})", "{{instance}}"),
            Panel::stat("Webhook certificate", "d", "Days until the certificate expires.")
                .thresholds(&[(None, "red"), (Some(14.0), "green")])
                .query("(min(capo_webhook_certificate_not_after_timestamp_seconds{S}) - time()) / 86400", "days"),
            Panel::stat("Features", "short", "Features that are on.")
                .query("max by (name) (capo_feature_enabled{S})", "{{name}}"),
            Panel::lines("Passes", "ops", "Passes by controller and result.")
                .query("sum by (controller, result) (rate(controller_runtime_reconcile_total{S}[R]))", "{{controller}} {{result}}"),
            Panel::lines("Duration of passes", "s", "99th percentile of the duration of passes.")
                .query("histogram_quantile(0.99, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{S}[R])))", "{{controller}}"),
            Panel::lines("Workers busy", "percentunit", "Running passes divided by those that may run at once.")
                .share()
                .query("sum by (controller) (controller_runtime_active_workers{S}) / sum by (controller) (controller_runtime_max_concurrent_reconciles{S})", "{{controller}}"),
            Panel::lines("Queues", "short", "Objects that wait for a pass.")
                .query("max by (name) (workqueue_depth{S})", "{{name}}"),
            Panel::lines("Wait for a pass", "s", "99th percentile.")
                .query("histogram_quantile(0.99, sum by (le, name) (rate(workqueue_queue_duration_seconds_bucket{S}[R])))", "{{name}}"),
            Panel::lines("Longest running pass", "s", "Age of the oldest pass that has not ended.")
                .query("max by (name) (workqueue_longest_running_processor_seconds{S})", "{{name}}"),
            Panel::lines("Requests to Kubernetes", "reqps", "Requests to the Kubernetes API by code and method.")
                .query("sum by (code, method) (rate(rest_client_requests_total{S}[R]))", "{{method}} {{code}}"),
            Panel::lines("Duration of requests to Kubernetes", "s", "99th percentile by method.")
                .query("histogram_quantile(0.99, sum by (le, verb) (rate(rest_client_request_duration_seconds_bucket{S}[R])))", "{{verb}}"),
            Panel::bars("Restarted watches", "short", "Kubernetes watches that ended, by kind and reason.")
                .query("sum by (kind, reason) (increase(capo_watch_restarts_total{S}[R]))", "{{kind}} {{reason}}"),
            Panel::lines("Watch events", "ops", "Events of the watches, by kind.")
                .query("sum by (kind) (rate(capo_watch_events_total{S}[R]))", "{{kind}}"),
            Panel::lines("Webhooks", "reqps", "Requests of the API server by webhook and code.")
                .query("sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{S}[R]))", "{{webhook}} {{code}}"),
            Panel::lines("Duration of webhooks", "s", "99th percentile.")
                .query("histogram_quantile(0.99, sum by (le, webhook) (rate(controller_runtime_webhook_latency_seconds_bucket{S}[R])))", "{{webhook}}"),
            Panel::lines("Memory", "bytes", "Resident memory.")
                .query("max by (instance) (process_resident_memory_bytes{S})", "{{instance}}"),
            Panel::lines("Processor", "percentunit", "Processor time per second; 1 is one core.")
                .query("sum by (instance) (rate(process_cpu_seconds_total{S}[R]))", "{{instance}}"),
            Panel::lines("Threads busy", "percentunit", "Share of their time that the threads of the runtime spend running tasks.")
                .share()
                .query("sum by (instance) (rate(capo_runtime_busy_seconds_total{S}[R])) / max by (instance) (capo_runtime_workers{S})", "{{instance}}"),
            Panel::lines("File descriptors", "percentunit", "Open file descriptors divided by those allowed.")
                .share()
                .query("max by (instance) (process_open_fds{S}) / max by (instance) (process_max_fds{S})", "{{instance}}"),
            Panel::bars("Events written", "short", "Kubernetes events by type and reason.")
                .query("sum by (type, reason) (increase(capo_events_emitted_total{S}[R]))", "{{type}} {{reason}}"),
            Panel::bars("Log", "short", "Lines of the log by level.")
                .query("sum by (level) (increase(capo_log_messages_total{S}[R]))", "{{level}}"),
        ],
    }
}
