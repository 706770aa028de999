//! Use of the OpenStack APIs: how much, how well, and what is left of the budget.

use super::{Board, Panel, annotation, variable};

pub(super) fn board() -> Board {
    Board {
        uid: "capo-openstack-api",
        title: "capo-rs / OpenStack API",
        description: "Requests to OpenStack by cloud and service, their failures, and the request budget.",
        variables: vec![variable("cloud", "Cloud", r#"capo_openstack_api_responses_total{job=~"$job"}"#)],
        annotations: vec![annotation(
            "A service asked for fewer requests",
            "orange",
            "sum by (cloud, api) (increase(capo_openstack_throttled_total{C}[1m])) > 0",
            "{{cloud}} {{api}} throttles",
        )],
        panels: vec![
            Panel::stat("Requests", "reqps", "Requests per second that were answered or failed.")
                .query("sum(rate(capo_openstack_api_responses_total{C}[R]))", "requests"),
            Panel::stat("Failing", "percentunit", "Share of the requests that ended in a server error, a time-out, a broken connection or an unreadable response.")
                .thresholds(&[(None, "green"), (Some(0.01), "orange"), (Some(0.1), "red")])
                .query(
                    r#"(sum(rate(capo_openstack_api_responses_total{C,code=~"5..|timeout|transport|parse"}[R])) or vector(0)) / sum(rate(capo_openstack_api_responses_total{C}[R]))"#,
                    "failing",
                ),
            Panel::stat("Paused services", "short", "Services that are throttling requests.")
                .thresholds(&[(None, "green"), (Some(1.0), "orange")])
                .query("count(max by (cloud, api) (capo_openstack_throttled_until_timestamp_seconds{C}) > time()) or vector(0)", "paused"),
            Panel::stat("Tokens expire in", "s", "Remaining life of the newest token of each cloud; it is renewed before it expires.")
                .size(6, 4)
                .query("min by (cloud) (capo_openstack_token_expiry_timestamp_seconds{C}) - time()", "{{cloud}}"),
            Panel::stat("Requests per load balancer", "reqps", "Requests per second for each tracked load balancer.")
                .size(6, 4)
                .query(
                    r#"sum(rate(capo_openstack_api_responses_total{S}[R])) / clamp_min(max(capo_poll_targets{S,kind="load-balancer"}), 1)"#,
                    "per load balancer",
                ),
            Panel::lines("Responses by code", "reqps", "HTTP status, or timeout, transport (no connection, or a broken one), parse (an unreadable response).")
                .query("sum by (code) (rate(capo_openstack_api_responses_total{C}[R]))", "{{code}}"),
            Panel::lines("Responses by service", "reqps", "Requests by cloud and service.")
                .query("sum by (cloud, api) (rate(capo_openstack_api_responses_total{C}[R]))", "{{cloud}} {{api}}"),
            Panel::lines("Most frequent requests", "reqps", "The ten most frequent requests, with CAPO's names.")
                .query("topk(10, sum by (request) (rate(capo_openstack_api_requests_total{S}[R])))", "{{request}}"),
            Panel::lines("Failed requests", "reqps", "Failed requests by name; an object that does not exist or is locked is no failure.")
                .query("sum by (request) (rate(capo_openstack_api_request_errors_total{S}[R]))", "{{request}}"),
            Panel::lines("Duration, median", "s", "Median duration of requests, by name.")
                .query("histogram_quantile(0.5, sum by (le, request) (rate(capo_openstack_api_request_duration_seconds_bucket{S}[R])))", "{{request}}"),
            Panel::lines("Duration, 99th percentile", "s", "99th percentile of the duration of requests, by name.")
                .query("histogram_quantile(0.99, sum by (le, request) (rate(capo_openstack_api_request_duration_seconds_bucket{S}[R])))", "{{request}}"),
            Panel::heatmap("Duration of requests to Octavia", "How long Octavia takes to answer.")
                .query(r#"sum by (le) (increase(capo_openstack_api_request_duration_seconds_bucket{S,request=~"loadbalancer.*"}[R]))"#, "{{le}}"),
            Panel::lines("Budget used", "percentunit", "Requests per second divided by what --openstack-qps allows. Above 1 the burst is being used.")
                .thresholds(&[(None, "green"), (Some(0.8), "red")])
                .query(
                    "sum by (cloud, api) (rate(capo_openstack_api_responses_total{C}[R])) / max by (cloud, api) (capo_openstack_ratelimiter_limit_per_second{C})",
                    "{{cloud}} {{api}}",
                ),
            Panel::lines("Tokens left in the budget", "short", "Requests that may be sent at once at this moment.")
                .query("max by (cloud, api) (capo_openstack_ratelimiter_tokens{C})", "{{cloud}} {{api}}"),
            Panel::lines("Wait for the budget", "s", "95th percentile of the time that requests waited for the budget.")
                .query("histogram_quantile(0.95, sum by (le, cloud, api) (rate(capo_openstack_ratelimiter_wait_seconds_bucket{C}[R])))", "{{cloud}} {{api}}"),
            Panel::lines("Requests waiting for the budget", "short", "Requests that wait for the budget.")
                .query("max by (cloud, api) (capo_openstack_ratelimiter_queue_length{C})", "{{cloud}} {{api}}"),
            Panel::bars("Throttled requests", "short", "Responses 429, or 503 with Retry-After.")
                .query("sum by (cloud, api) (increase(capo_openstack_throttled_total{C}[R]))", "{{cloud}} {{api}}"),
            Panel::lines("Remaining pause", "s", "Remaining time in which a throttling service gets no requests.")
                .query("clamp_min(max by (cloud, api) (capo_openstack_throttled_until_timestamp_seconds{C}) - time(), 0)", "{{cloud}} {{api}}"),
            Panel::lines("Retry-After", "s", "90th percentile of the pauses that services requested.")
                .query("histogram_quantile(0.9, sum by (le, api) (increase(capo_openstack_retry_after_seconds_bucket{S}[$__range])))", "{{api}}"),
            Panel::lines("Not sent", "reqps", "Requests that were not sent because the service is throttling requests or does not answer.")
                .query("sum by (cloud, api) (rate(capo_openstack_api_refused_total{C}[R]))", "{{cloud}} {{api}}"),
            Panel::bars("Retries", "short", "Requests sent again after the previous one of the same name failed, by cause.")
                .query("sum by (api, cause) (increase(capo_openstack_api_retries_total{S}[R]))", "{{api}} {{cause}}"),
            Panel::bars("Sign-ins", "short", "Sign-ins by cloud and outcome.")
                .query("sum by (cloud, outcome) (increase(capo_openstack_token_requests_total{C}[R]))", "{{cloud}} {{outcome}}"),
            Panel::lines("Under way", "short", "Requests that are not answered yet.")
                .query("sum by (api) (capo_openstack_api_inflight_requests{S})", "{{api}}"),
            Panel::lines("Duration of regular reads", "s", "99th percentile of the duration of reads.")
                .query("histogram_quantile(0.99, sum by (le, kind) (rate(capo_poll_duration_seconds_bucket{S}[R])))", "{{kind}}"),
        ],
    }
}
