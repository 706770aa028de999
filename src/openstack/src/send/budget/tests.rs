use super::*;
use crate::{Error, Service};
use capo_core::FailureClass;

const LIMITS: Limits = Limits {
    per_second: 10.0,
    burst: 20,
    in_flight: 8,
    longest_wait: Duration::from_mins(1),
};

fn failure() -> Error {
    Error::new(
        Service::LoadBalancer,
        "loadbalancer_get",
        FailureClass::Transient,
        "load-balancer: the connection was refused",
    )
}

async fn call(budget: &Arc<Budget>, priority: Priority) {
    let permit = budget.acquire(priority).await.unwrap();
    permit.end(Ending::Answered, None);
}

#[tokio::test(start_paused = true)]
async fn never_more_than_rate_and_burst() {
    let budget = Budget::new(LIMITS);
    let start = Instant::now();
    let calls: Vec<_> = (0..120)
        .map(|_| {
            let budget = Arc::clone(&budget);
            tokio::spawn(async move {
                call(&budget, Priority::Steady).await;
                start.elapsed()
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in calls {
        times.push(task.await.unwrap());
    }
    times.sort();
    for (at, moment) in times.iter().enumerate() {
        let allowed = 20.0 + 10.0 * moment.as_secs_f64() + 0.1;
        assert!(
            f64::from(u32::try_from(at).unwrap()) < allowed,
            "{at} by {moment:?}"
        );
    }
    assert_eq!(
        start.elapsed().as_secs(),
        10,
        "100 calls beyond the burst take 10 s"
    );
}

#[tokio::test(start_paused = true)]
async fn never_more_in_flight_than_allowed() {
    let budget = Budget::new(LIMITS);
    let mut permits = Vec::new();
    for _ in 0..8 {
        permits.push(budget.acquire(Priority::Steady).await.unwrap());
    }
    let ninth = tokio::time::timeout(Duration::from_secs(1), budget.acquire(Priority::Gate));
    assert!(ninth.await.is_err());
    drop(permits.pop());
    let ninth = tokio::time::timeout(Duration::from_secs(1), budget.acquire(Priority::Gate));
    assert!(ninth.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn urgent_calls_overtake_in_the_queue() {
    let budget = Budget::new(LIMITS);
    for _ in 0..20 {
        call(&budget, Priority::Steady).await;
    }
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let classes = [
        Priority::Steady,
        Priority::Settling,
        Priority::Gate,
        Priority::Steady,
        Priority::Gate,
        Priority::Settling,
    ];
    for priority in classes {
        let (budget, sender) = (Arc::clone(&budget), sender.clone());
        tokio::spawn(async move {
            call(&budget, priority).await;
            sender.send(priority).unwrap();
        });
        tokio::task::yield_now().await;
    }
    let mut seen = Vec::new();
    for _ in classes {
        seen.push(order.recv().await.unwrap());
    }
    let mut expected = classes.to_vec();
    expected.sort();
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_the_queue_does_not_block_the_others() {
    let budget = Budget::new(LIMITS);
    for _ in 0..20 {
        call(&budget, Priority::Steady).await;
    }
    let impatient = tokio::time::timeout(Duration::from_millis(10), budget.acquire(Priority::Gate));
    let patient = tokio::time::timeout(Duration::from_secs(1), budget.acquire(Priority::Steady));
    let (impatient, patient) = tokio::join!(impatient, patient);
    assert!(impatient.is_err());
    assert!(patient.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn during_a_pause_all_calls_are_refused_at_once() {
    let budget = Budget::new(LIMITS);
    let permit = budget.acquire(Priority::Gate).await.unwrap();
    for _ in 0..19 {
        call(&budget, Priority::Steady).await;
    }
    let queued = {
        let budget = Arc::clone(&budget);
        tokio::spawn(async move { budget.acquire(Priority::Steady).await.map(drop) })
    };
    tokio::task::yield_now().await;
    let start = Instant::now();
    permit.end(
        Ending::PauseRequested(Duration::from_secs(30)),
        Some(failure()),
    );
    for result in [
        queued.await.unwrap(),
        budget.acquire(Priority::Gate).await.map(drop),
    ] {
        let Err(Refusal::HeldBack {
            retry_after,
            failure,
            requested,
        }) = result
        else {
            panic!("a call was admitted during a pause");
        };
        assert_eq!(retry_after, Duration::from_secs(30));
        assert!(failure.is_some() && requested);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(30)).await;
    call(&budget, Priority::Steady).await;
}

#[tokio::test(start_paused = true)]
async fn after_failures_one_probe_is_sent_at_a_time() {
    let budget = Budget::new(LIMITS);
    for _ in 0..3 {
        let permit = budget.acquire(Priority::Steady).await.unwrap();
        permit.end(Ending::Failed, Some(failure()));
    }
    assert!(budget.acquire(Priority::Gate).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let probe = budget.acquire(Priority::Steady).await.unwrap();
    assert!(budget.acquire(Priority::Gate).await.is_err());
    // A dropped probe has no result; the next call may probe.
    drop(probe);
    let probe = budget.acquire(Priority::Steady).await.unwrap();
    probe.end(Ending::Answered, None);
    call(&budget, Priority::Steady).await;
    call(&budget, Priority::Steady).await;
}

#[tokio::test(start_paused = true)]
async fn the_queue_has_an_end() {
    let budget = Budget::new(Limits {
        in_flight: 1,
        ..LIMITS
    });
    let _held = budget.acquire(Priority::Gate).await.unwrap();
    let refusal = budget.acquire(Priority::Gate).await.unwrap_err();
    assert!(matches!(refusal, Refusal::TooLongAWait));
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_lower_class_age_into_the_next() {
    for (priority, latest) in [(Priority::Settling, 5), (Priority::Steady, 15)] {
        let budget = Budget::new(LIMITS);
        for _ in 0..20 {
            call(&budget, Priority::Gate).await;
        }
        // Gate calls arrive faster than the budget admits them, and never stop.
        let urgent = {
            let budget = Arc::clone(&budget);
            tokio::spawn(async move {
                loop {
                    let budget = Arc::clone(&budget);
                    tokio::spawn(async move { budget.acquire(Priority::Gate).await.map(drop) });
                    tokio::time::sleep(Duration::from_millis(90)).await;
                }
            })
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
        let start = Instant::now();
        let permit = budget.acquire(priority).await.unwrap();
        let waited = start.elapsed();
        urgent.abort();
        let latest = Duration::from_secs(latest);
        assert!(
            waited >= latest / 2,
            "{priority:?} waited {waited:?}: urgent calls go first"
        );
        assert!(
            waited <= latest + latest / 2,
            "{priority:?} waited {waited:?}"
        );
        assert_eq!(permit.waited, waited);
    }
}
