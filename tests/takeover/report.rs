//! What was found of each kind, and the judgement.

use std::{collections::BTreeMap, sync::OnceLock};

use crate::{TESTED, course, kinds::Kind, requests::RequestResults};

/// The longest time without a working controller, in seconds.
const WITHOUT_CONTROLLER: f64 = 60.0;

/// What one kind went through; an `Err` tells how it failed.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub kind: Kind,
    /// CAPO's cluster is complete.
    pub made: Result<(), String>,
    /// What CAPO has left on its objects just before it is stopped is known.
    pub marked: Result<(), String>,
    /// Its Machines and templates just before a swap.
    pub present: Vec<String>,
    /// `capo-rs plan` lists nothing, lists a rule that is missing, and changes nothing.
    pub planned: Result<(), String>,
    /// capo-rs looked at every object twice while its gate only observes, and twice with the gate in force.
    pub taken_over: Result<(), String>,
    /// The writing calls of capo-rs in all these passes.
    pub written_by_capo_rs: Vec<String>,
    /// Seconds from CAPO's end to the first call of capo-rs to its cloud.
    pub without_controller: Option<f64>,
    /// capo-rs adds a worker and a control-plane machine, and deletes the worker.
    pub machines_of_capo_rs: Result<(), String>,
    /// The writing calls of CAPO in its first two passes after it got everything back.
    pub written_by_capo: Vec<String>,
    /// CAPO adds a worker and a control-plane machine.
    pub machines_of_capo: Result<(), String>,
    /// What a client saw that asked through the load balancer, from CAPO's stop to the last machine of CAPO.
    pub requests: RequestResults,
    /// CAPO deletes the cluster and nothing is left in the cloud.
    pub deleted: Result<(), String>,
}

impl Found {
    pub(crate) fn new(kind: Kind) -> Self {
        let not_reached = || Err("not reached".to_owned());
        Self {
            kind,
            made: not_reached(),
            marked: not_reached(),
            present: Vec::new(),
            planned: not_reached(),
            taken_over: not_reached(),
            written_by_capo_rs: Vec::new(),
            without_controller: None,
            machines_of_capo_rs: not_reached(),
            written_by_capo: Vec::new(),
            machines_of_capo: not_reached(),
            requests: RequestResults::default(),
            deleted: not_reached(),
        }
    }

    /// One line of the matrix.
    pub(crate) fn line(&self) -> String {
        let short = |result: &Result<(), String>| if result.is_ok() { "yes" } else { "NO" };
        format!(
            "{:28} made {:3} plan {:3} taken over {:3} writes {:3} after {:4.1} s machines {:3} | back: writes {:3} machines {:3} deleted {:3} | requests {} failed {}",
            self.kind.name(),
            short(&self.made),
            short(&self.planned),
            short(&self.taken_over),
            self.written_by_capo_rs.len(),
            self.without_controller.unwrap_or(f64::NAN),
            short(&self.machines_of_capo_rs),
            self.written_by_capo.len(),
            short(&self.machines_of_capo),
            short(&self.deleted),
            self.requests.sent,
            self.requests.failed.len(),
        )
    }

    /// Everything must have gone well, without a writing call at either swap.
    pub(crate) fn judge(&self) {
        let none: &[String] = &[];
        assert_eq!(self.made, Ok(()), "CAPO makes the cluster");
        assert_eq!(self.marked, Ok(()), "names and marks of CAPO");
        assert_eq!(self.planned, Ok(()), "what is planned before");
        assert_eq!(
            self.written_by_capo_rs, none,
            "capo-rs changes nothing when it takes over"
        );
        assert_eq!(self.taken_over, Ok(()), "capo-rs takes over");
        // It is paused while the gate only observes, and no call goes to its cloud.
        let paused = self.kind == Kind::HeldMember;
        assert!(
            self.without_controller
                .map_or(paused, |seconds| seconds <= WITHOUT_CONTROLLER),
            "without a working controller: {:?} s",
            self.without_controller
        );
        assert_eq!(self.machines_of_capo_rs, Ok(()), "machines of capo-rs");
        if !self.kind.capo_repeats_itself() {
            assert_eq!(
                self.written_by_capo, none,
                "CAPO changes nothing when it gets the cluster back"
            );
        }
        assert_eq!(self.requests.failed, none, "no request fails");
        assert_eq!(self.machines_of_capo, Ok(()), "machines of CAPO afterwards");
        assert_eq!(self.deleted, Ok(()), "CAPO deletes the cluster afterwards");
    }
}

/// The kinds of this run: those that `CAPO_RS_TAKEOVER` names, or all that have a test.
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

/// What was found of a kind. The first test that calls this runs the course of all kinds, and the others wait for it.
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
