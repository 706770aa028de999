//! Passes, queues and watches, under the names that controller-runtime and its work queue use, and under names of
//! capo-rs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use prometheus::{HistogramVec, IntCounterVec, Registry, proto::MetricFamily};

use super::{
    Metrics, catalogue,
    families::{Result, count, counters, gauges, histograms, whole_gauges},
};
use crate::reconcile::{PassObserver, PassResult, QueueMetrics, WatchBreak};
use capo_core::Reason;

pub(super) struct Families {
    passes: IntCounterVec,
    errors: IntCounterVec,
    /// Families of controller-runtime that are always 0 in capo-rs.
    never: [IntCounterVec; 2],
    panics: IntCounterVec,
    durations: HistogramVec,
    retries: IntCounterVec,
    waits: HistogramVec,
    work: HistogramVec,
    watched: IntCounterVec,
    watch_breaks: IntCounterVec,
    events: IntCounterVec,
    known: Mutex<MetricSources>,
}

/// The sources that are read at the scrape.
#[derive(Default)]
struct MetricSources {
    controllers: BTreeMap<&'static str, (u16, Arc<QueueMetrics>)>,
    kinds: BTreeMap<String, Box<dyn Fn() -> usize + Send + Sync>>,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        Ok(Self {
            passes: counters(registry, &catalogue::PASSES_TOTAL)?,
            errors: counters(registry, &catalogue::PASS_ERRORS)?,
            never: [
                counters(registry, &catalogue::PASS_TERMINAL_ERRORS)?,
                counters(registry, &catalogue::PASS_TIMEOUTS)?,
            ],
            panics: counters(registry, &catalogue::PASS_PANICS)?,
            durations: histograms(registry, &catalogue::PASS_DURATION)?,
            retries: counters(registry, &catalogue::QUEUE_RETRIES)?,
            waits: histograms(registry, &catalogue::QUEUE_DURATION)?,
            work: histograms(registry, &catalogue::WORK_DURATION)?,
            watched: counters(registry, &catalogue::WATCH_EVENTS)?,
            watch_breaks: counters(registry, &catalogue::WATCH_RESTARTS)?,
            events: counters(registry, &catalogue::EVENTS)?,
            known: Mutex::default(),
        })
    }

    /// How many objects of a kind are watched.
    pub(super) fn objects(&self, kind: &str) -> usize {
        self.known().kinds.get(kind).map_or(0, |objects| objects())
    }

    /// Renders the present numbers of waiting and running passes and of watched objects.
    pub(super) fn queues(&self) -> Result<Vec<MetricFamily>> {
        let registry = Registry::new();
        let depth = whole_gauges(&registry, &catalogue::QUEUE_DEPTH)?;
        let added = counters(&registry, &catalogue::QUEUE_ADDS)?;
        let unfinished = gauges(&registry, &catalogue::UNFINISHED)?;
        let longest = gauges(&registry, &catalogue::LONGEST_RUNNING)?;
        let workers = whole_gauges(&registry, &catalogue::MAX_PASSES)?;
        let active = whole_gauges(&registry, &catalogue::ACTIVE_PASSES)?;
        for (name, (most, queue)) in &self.known().controllers {
            let now = queue.depth();
            let of = &[*name, *name];
            // All objects have one priority. The label exists because boards for controller-runtime select by it.
            depth
                .with_label_values(&[*name, *name, "0"])
                .set(count(now.waiting));
            added.with_label_values(of).inc_by(now.added);
            unfinished
                .with_label_values(of)
                .set(now.unfinished.as_secs_f64());
            longest.with_label_values(of).set(now.longest.as_secs_f64());
            workers.with_label_values(&[*name]).set(i64::from(*most));
            active.with_label_values(&[*name]).set(count(now.running));
        }
        Ok(registry.gather())
    }

    fn known(&self) -> MutexGuard<'_, MetricSources> {
        self.known.lock()
    }
}

impl PassObserver for Metrics {
    fn controller(&self, name: &'static str, workers: u16, queue: Arc<QueueMetrics>) {
        let families = &self.0.controllers;
        for result in PassResult::ALL {
            families.passes.with_label_values(&[name, result.as_str()]);
        }
        families.errors.with_label_values(&[name]);
        families.panics.with_label_values(&[name]);
        for never in &families.never {
            never.with_label_values(&[name]);
        }
        families.durations.with_label_values(&[name]);
        families.retries.with_label_values(&[name, name]);
        families.waits.with_label_values(&[name, name]);
        families.work.with_label_values(&[name, name]);
        families.known().controllers.insert(name, (workers, queue));
    }

    fn pass_began(&self, controller: &'static str, waited: Duration) {
        self.0
            .controllers
            .waits
            .with_label_values(&[controller, controller])
            .observe(waited.as_secs_f64());
    }

    fn pass(&self, controller: &'static str, result: PassResult, duration: Duration) {
        let families = &self.0.controllers;
        if result == PassResult::Error {
            families.errors.with_label_values(&[controller]).inc();
            families
                .retries
                .with_label_values(&[controller, controller])
                .inc();
        }
        families
            .passes
            .with_label_values(&[controller, result.as_str()])
            .inc();
        let seconds = duration.as_secs_f64();
        families
            .durations
            .with_label_values(&[controller])
            .observe(seconds);
        families
            .work
            .with_label_values(&[controller, controller])
            .observe(seconds);
    }

    fn pass_panicked(&self, controller: &'static str) {
        let panics = &self.0.controllers.panics;
        panics.with_label_values(&[controller]).inc();
    }

    fn watching(&self, kind: &str, objects: Box<dyn Fn() -> usize + Send + Sync>) {
        let families = &self.0.controllers;
        families.watched.with_label_values(&[kind]);
        for why in WatchBreak::ALL {
            families
                .watch_breaks
                .with_label_values(&[kind, why.as_str()]);
        }
        families.known().kinds.insert(kind.to_owned(), objects);
    }

    fn watched(&self, kind: &str) {
        self.0.controllers.watched.with_label_values(&[kind]).inc();
    }

    fn watch_broke(&self, kind: &str, why: WatchBreak) {
        self.0
            .controllers
            .watch_breaks
            .with_label_values(&[kind, why.as_str()])
            .inc();
    }

    fn event(&self, reason: Reason, kind: &'static str) {
        self.0
            .controllers
            .events
            .with_label_values(&[reason.as_str(), kind])
            .inc();
    }
}
