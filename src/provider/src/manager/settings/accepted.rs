//! Flags of CAPO that are accepted and have no effect.

use clap::Args;

use capo_core::Provider;

/// Flags of CAPO that have no effect in capo-rs. They are accepted so that CAPO's arguments can be kept, and the log
/// reports those that are set.
#[derive(Debug, Clone, Args)]
pub(in crate::manager) struct Accepted {
    #[arg(long, hide = true)]
    scope_cache_max_size: Option<String>,
    #[arg(long, hide = true)]
    lb_provider: Option<String>,
    #[arg(long, hide = true)]
    profiler_address: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    contention_profiling: Option<String>,
    #[arg(long, hide = true)]
    tls_cipher_suites: Option<String>,
    #[arg(long, hide = true)]
    feature_gates: Vec<String>,
    #[arg(long, hide = true)]
    vmodule: Option<String>,
    #[arg(long, hide = true)]
    log_flush_frequency: Option<String>,
    #[arg(long, hide = true)]
    log_json_info_buffer_size: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    log_json_split_stream: Option<String>,
    #[arg(long, hide = true)]
    log_text_info_buffer_size: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    log_text_split_stream: Option<String>,
}

impl Accepted {
    /// The flags that were set, for one warning each.
    pub(in crate::manager) fn set(&self) -> Vec<&'static str> {
        let not_empty =
            |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        let flags = [
            (
                "--scope-cache-max-size",
                self.scope_cache_max_size.is_some(),
            ),
            (
                "--lb-provider",
                self.lb_provider
                    .as_deref()
                    .is_some_and(|provider| provider != Provider::Amphora.label()),
            ),
            ("--profiler-address", not_empty(&self.profiler_address)),
            (
                "--contention-profiling",
                self.contention_profiling.is_some(),
            ),
            ("--tls-cipher-suites", not_empty(&self.tls_cipher_suites)),
            (
                "--feature-gates",
                self.feature_gates.iter().any(|gates| !gates.is_empty()),
            ),
            ("--vmodule", self.vmodule.is_some()),
            ("--log-flush-frequency", self.log_flush_frequency.is_some()),
            (
                "--log-json-info-buffer-size",
                self.log_json_info_buffer_size.is_some(),
            ),
            (
                "--log-json-split-stream",
                self.log_json_split_stream.is_some(),
            ),
            (
                "--log-text-info-buffer-size",
                self.log_text_info_buffer_size.is_some(),
            ),
            (
                "--log-text-split-stream",
                self.log_text_split_stream.is_some(),
            ),
        ];
        flags
            .into_iter()
            .filter_map(|(flag, is_set)| is_set.then_some(flag))
            .collect()
    }
}
