use super::*;
use capo_openstack::Service;

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
        let event = waiting
            .try_recv()
            .ok()
            .map(|write| write.content.event_reason);
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
