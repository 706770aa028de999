//! What was found of each kind, and the judgement.

use std::{collections::BTreeMap, sync::OnceLock};

use crate::{TESTED, course, kinds::Kind};

/// What one kind went through; an `Err` tells how it failed.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub kind: Kind,
    /// CAPO's cluster is complete.
    pub made: Result<(), String>,
    /// capo-rs looked at every object twice while its gate only observes, and twice with the gate in force.
    pub taken_over: Result<(), String>,
    /// The writing calls of capo-rs in all these passes.
    pub written_by_capo_rs: Vec<String>,
    /// capo-rs adds a worker and a control-plane machine, and deletes the worker.
    pub machines_of_capo_rs: Result<(), String>,
    /// The writing calls of CAPO in its first two passes after it got everything back.
    pub written_by_capo: Vec<String>,
    /// CAPO adds a worker and a control-plane machine.
    pub machines_of_capo: Result<(), String>,
    /// CAPO deletes the cluster and nothing is left in the cloud.
    pub deleted: Result<(), String>,
}

impl Found {
    pub(crate) fn new(kind: Kind) -> Self {
        let not_reached = || Err("not reached".to_owned());
        Self {
            kind,
            made: not_reached(),
            taken_over: not_reached(),
            written_by_capo_rs: Vec::new(),
            machines_of_capo_rs: not_reached(),
            written_by_capo: Vec::new(),
            machines_of_capo: not_reached(),
            deleted: not_reached(),
        }
    }

    /// One line of the matrix.
    pub(crate) fn line(&self) -> String {
        let short = |result: &Result<(), String>| if result.is_ok() { "yes" } else { "NO" };
        format!(
            "{:28} made {:3} taken over {:3} writes {:3} machines {:3} | back: writes {:3} machines {:3} deleted {}",
            self.kind.name(),
            short(&self.made),
            short(&self.taken_over),
            self.written_by_capo_rs.len(),
            short(&self.machines_of_capo_rs),
            self.written_by_capo.len(),
            short(&self.machines_of_capo),
            short(&self.deleted),
        )
    }

    /// Everything must have gone well, without a writing call at either swap.
    pub(crate) fn judge(&self) {
        let none: &[String] = &[];
        assert_eq!(self.made, Ok(()), "CAPO makes the cluster");
        assert_eq!(
            self.written_by_capo_rs, none,
            "capo-rs changes nothing when it takes over"
        );
        assert_eq!(self.taken_over, Ok(()), "capo-rs takes over");
        assert_eq!(self.machines_of_capo_rs, Ok(()), "machines of capo-rs");
        if !self.kind.capo_repeats_itself() {
            assert_eq!(
                self.written_by_capo, none,
                "CAPO changes nothing when it gets the cluster back"
            );
        }
        assert_eq!(self.machines_of_capo, Ok(()), "machines of CAPO afterwards");
        assert_eq!(self.deleted, Ok(()), "CAPO deletes the cluster afterwards");
    }
}

/// The kinds that this run is about: those that `CAPO_RS_TAKEOVER` names, or all that have a test.
pub(crate) fn chosen() -> Vec<Kind> {
    let names = std::env::var("CAPO_RS_TAKEOVER").unwrap_or_default();
    let names: Vec<&str> = match names.as_str() {
        "" => TESTED.to_vec(),
        names => names.split([',', ' ']).collect(),
    };
    names
        .into_iter()
        .map(|name| {
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            kind.unwrap_or_else(|| panic!("CAPO_RS_TAKEOVER: there is no kind {name}"))
        })
        .collect()
}

/// What was found of a kind; the first test that asks waits until all went through everything.
pub(crate) fn of(name: &str) -> &'static Found {
    static FOUND: OnceLock<BTreeMap<&'static str, Found>> = OnceLock::new();
    let all = FOUND.get_or_init(|| {
        let found = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(course::run(&chosen()))
        })
        .join()
        .expect("the course is run to its end");
        for one in &found {
            println!("{}", one.line());
        }
        found
            .into_iter()
            .map(|found| (found.kind.name(), found))
            .collect()
    });
    all.get(name)
        .unwrap_or_else(|| panic!("{name} was not chosen by CAPO_RS_TAKEOVER"))
}
