use super::*;
use capo_openstack::Service;

fn content(note: &str) -> Content {
    Content {
        warning: true,
        reason: Reason::InvalidSpec,
        shown: Reason::InvalidSpec.as_str().into(),
        action: "Reconcile",
        note: note.to_owned(),
    }
}

#[test]
fn the_same_text_is_one_event_with_a_count() {
    let (mut correlator, start) = (Correlator::default(), Instant::now());
    let mut admit = |object: &str, name: &str, at: Duration| {
        let admitted = correlator.admit(
            object.to_owned(),
            &content("x"),
            name.to_owned(),
            start + at,
        );
        admitted.map(|(name, count)| format!("{name}{count}"))
    };
    let seconds = Duration::from_secs;
    assert_eq!(admit("a", "e", seconds(0)).as_deref(), Some("e1"));
    assert_eq!(admit("b", "f", seconds(0)).as_deref(), Some("f1"));
    assert_eq!(admit("a", "g", seconds(30)), None);
    assert_eq!(admit("a", "g", seconds(60)).as_deref(), Some("e3"));
    assert_eq!(admit("a", "g", seconds(90)), None);
    assert_eq!(admit("a", "h", seconds(90) + SERIES).as_deref(), Some("h1"));
}

#[test]
fn events_of_an_object_are_limited_and_allowed_again_later() {
    let (mut correlator, start) = (Correlator::default(), Instant::now());
    let admitted = |correlator: &mut Correlator, at| {
        (0..100)
            .filter(|n| {
                let content = content(&format!("{at:?}{n}"));
                correlator
                    .admit("a".to_owned(), &content, "e".to_owned(), at)
                    .is_some()
            })
            .count()
    };
    assert_eq!(admitted(&mut correlator, start), 40);
    assert_eq!(admitted(&mut correlator, start + REFILL), 1);
    assert_eq!(admitted(&mut correlator, start + REFILL * 200), 40);
}

/// An object whose text changes every 20 s for ten minutes and never repeats.
#[test]
fn a_cloud_that_fails_repeatedly_causes_a_bounded_number_of_events() {
    let (mut correlator, start) = (Correlator::default(), Instant::now());
    let mut written = 0;
    for second in 0..600_u64 {
        let now = start + Duration::from_secs(second);
        let notes = [
            format!("request {second}: 503"),
            "held: OpenStack does not answer".to_owned(),
            "open again".to_owned(),
        ];
        for note in notes.iter().filter(|_| second % 20 < 2) {
            let name = format!("e{second}");
            written += i32::from(
                correlator
                    .admit("a".to_owned(), &content(note), name, now)
                    .is_some(),
            );
        }
    }
    // The number of writes that are allowed at once, and one for every half minute.
    assert!((40..=60).contains(&written), "{written}");
    assert_eq!(correlator.0.len(), 1);
    let remembered = correlator
        .0
        .values()
        .map(|known| known.content.len())
        .sum::<usize>();
    assert!(remembered <= 50, "{remembered}");
}

#[test]
fn a_deletion_has_an_event_only_if_it_changed_something() {
    let (queue, mut waiting) = mpsc::channel::<Write>(QUEUE);
    let events = Events {
        queue,
        correlator: Arc::default(),
        counter: Arc::new(|_, _| {}),
    };
    let about = ObjectReference::default();
    let mut deletion = |answer| {
        let what = (Verb::Delete, CloudObject::Port);
        let passed_on = events.removed(&about, what, "p", "1", answer);
        let event = waiting.try_recv().ok().map(|write| write.content.shown);
        (passed_on.is_ok(), event)
    };
    let error = |class| {
        Err(Error::new(
            Service::Network,
            "port_delete",
            class,
            "refused",
        ))
    };
    assert_eq!(
        deletion(Ok(())),
        (true, Some("Successfuldeleteport".into()))
    );
    assert_eq!(deletion(error(FailureClass::NotFound)), (true, None));
    assert_eq!(deletion(error(FailureClass::InUse)), (false, None));
    assert_eq!(
        deletion(error(FailureClass::Transient)),
        (false, Some("Faileddeleteport".into()))
    );
}
