use capo_core::FailureClass;

use super::*;

#[test]
fn the_cheaper_way_is_taken() {
    for (wanted, size, expected) in [
        (1, None, ReadPlan::OneByOne),
        (2, None, ReadPlan::OneByOne),
        (3, None, ReadPlan::List),
        (100, Some(100), ReadPlan::List),
        (100, Some(5_000), ReadPlan::List),
        (5, Some(5_000), ReadPlan::OneByOne),
    ] {
        assert_eq!(plan(wanted, size), expected, "{wanted} of {size:?}");
    }
}

#[test]
fn an_answer_serves_the_callers_for_which_it_is_new_enough() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut batch: Batch<u32, &str> = Batch::by_id();
    assert!(batch.result(&1, at(0), at(0)).is_none());
    assert_eq!(batch.due(at(0)).0, [1]);
    batch.read(&1, Ok("one"), at(1), at(1));
    assert_eq!(batch.due(at(1)).0, [0; 0]);
    assert_eq!(
        batch.result(&1, at(1), at(9)).unwrap().unwrap().value,
        "one"
    );
    assert!(batch.result(&1, at(2), at(9)).is_none(), "it is too old");
    // A read that was sent before the caller's oldest moment does not serve the caller.
    batch.read(&1, Ok("one"), at(1), at(1));
    assert_eq!(batch.due(at(9)).0, [1]);
}

#[test]
fn absence_is_as_old_as_its_read_and_a_failure_serves_the_callers_that_waited() {
    let error = |class| Error::new(crate::Service::Compute, "server_get", class, "x");
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    for (class, sent, ended, oldest, requested, known) in [
        (FailureClass::NotFound, 1, 3, 2, 2, false),
        (FailureClass::NotFound, 1, 3, 1, 9, true),
        (FailureClass::Transient, 1, 3, 2, 2, true),
        (FailureClass::Transient, 1, 3, 1, 9, false),
    ] {
        let mut batch: Batch<u32, &str> = Batch::by_id();
        assert!(batch.result(&1, at(0), at(0)).is_none());
        batch.read(&1, Err(error(class)), at(sent), at(ended));
        let answer = batch.result(&1, at(oldest), at(requested));
        assert_eq!(
            answer.is_some(),
            known,
            "{class:?} requested at {requested}"
        );
    }
}

#[test]
fn a_list_serves_all_due_objects_and_returns_those_it_lacks() {
    let now = Instant::now();
    let mut batch: Batch<u32, &str> = Batch::by_id();
    for key in 1..=4 {
        assert!(batch.result(&key, now, now).is_none());
    }
    let (due, how) = batch.due(now);
    assert_eq!((due.as_slice(), how), (&[1, 2, 3, 4][..], ReadPlan::List));
    let all = vec![(1, "one"), (2, "two"), (4, "four"), (77, "a stranger's")];
    assert_eq!(batch.listed(&due, all, now, now), [3]);
    assert_eq!(batch.due(now), (vec![3], ReadPlan::OneByOne));
    let stranger = batch.result(&77, now, now).unwrap();
    assert_eq!(stranger.unwrap().value, "a stranger's", "it was listed");
    batch.forget_unused(now + FORGOTTEN_AFTER);
    assert!(batch.entries.is_empty());
}

#[test]
fn an_object_that_will_be_needed_soon_counts_for_a_list() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    // Every caller accepts an answer that is up to 5 minutes old, and all objects were read before that.
    for (age, requested_again, expected) in [
        (10, 600, ReadPlan::List),
        (590, 600, ReadPlan::OneByOne),
        (10, 3_000, ReadPlan::OneByOne),
    ] {
        let mut batch: Batch<u32, &str> = Batch::by_id();
        for key in 1..=5 {
            let requested = at(if key == 1 { requested_again } else { 300 });
            let known = batch.result(&key, requested - Duration::from_mins(5), requested);
            assert!(known.is_none());
            if key > 1 {
                batch.read(&key, Ok("x"), at(age), at(age));
                assert!(batch.result(&key, at(0), at(300)).is_some());
            }
        }
        let (due, how) = batch.due(at(requested_again));
        assert_eq!((due, how), (vec![1], expected), "read at {age}");
    }
}

#[test]
fn objects_that_have_settled_share_their_first_read_afterwards_too() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut batch: Batch<u32, &str> = Batch::by_id();
    for key in 1..=5 {
        // While the object was changing, the caller wanted an answer of that moment.
        assert!(batch.result(&key, at(0), at(0)).is_none());
        batch.read(&key, Ok("x"), at(0), at(0));
    }
    assert!(batch.result(&1, at(300), at(600)).is_none());
    assert_eq!(batch.due(at(600)), (vec![1], ReadPlan::List));
    // The age that one caller accepts does not show what the others accept.
    assert!(batch.result(&1, at(600), at(600)).is_none());
    assert_eq!(batch.due(at(600)), (vec![1], ReadPlan::OneByOne));
}

#[test]
fn new_objects_are_read_by_one_list_with_those_that_are_expected() {
    let now = Instant::now();
    let mut batch: Batch<u32, &str> = Batch::by_id();
    for key in 1..=3 {
        batch.anticipate(&key, now);
    }
    assert_eq!(batch.due(now).0, [0; 0], "no caller waits");
    assert!(batch.result(&1, now, now).is_none());
    assert_eq!(batch.due(now), (vec![1], ReadPlan::List));
    assert_eq!(batch.awaited(), 3);
    let all = vec![(1, "one"), (2, "two"), (3, "three")];
    assert_eq!(batch.listed(&[1], all, now, now), [0; 0]);
    assert_eq!(batch.result(&3, now, now).unwrap().unwrap().value, "three");
}

#[test]
fn a_list_serves_every_name_until_it_is_too_old() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut batch: Batch<&str, Vec<u32>> = Batch::by_name();
    assert!(batch.result(&"a", at(0), at(0)).is_none());
    let all = vec![("b", vec![1, 2])];
    assert_eq!(batch.listed(&["a"], all, at(1), at(1)), [""; 0]);
    let mut value = |name, oldest| batch.result(&name, at(oldest), at(9)).map(|it| it.unwrap());
    assert_eq!(value("a", 1).unwrap().value, [0; 0]);
    assert_eq!(value("b", 1).unwrap().value, [1, 2]);
    assert_eq!(value("c", 0).unwrap().value, [0; 0]);
    assert_eq!(value("c", 2), None);
}
