use parking_lot::Mutex;

use futures::stream;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::ResourceExt;

use super::*;

fn pod(name: &str, generation: i64, phase: &str) -> Pod {
    Pod {
        metadata: ObjectMeta {
            namespace: Some("n".to_owned()),
            name: Some(name.to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        },
        status: Some(PodStatus {
            phase: Some(phase.to_owned()),
            ..PodStatus::default()
        }),
        ..Pod::default()
    }
}

fn phase(pod: &Pod) -> Option<&String> {
    pod.status.as_ref()?.phase.as_ref()
}

async fn enqueued(events: Vec<Event<Pod>>) -> Vec<Target> {
    let seen = Mutex::new(Vec::new());
    follow(
        stream::iter(events.into_iter().map(Ok)),
        |pod| Tracked {
            fingerprints: fingerprints_of(pod, &|pod: &Pod, hasher| phase(pod).hash(hasher)),
            has_status: phase(pod).is_some_and(|phase| !phase.is_empty()),
            route: Route {
                own: vec![own(&pod.name_any())],
                related: vec![related(&pod.name_any())],
            },
        },
        |target| seen.lock().push(target.clone()),
    )
    .await;
    seen.into_inner()
}

fn own(name: &str) -> Target {
    Target::Machine(ObjectName::new("n", name))
}

fn related(name: &str) -> Target {
    Target::Cluster(ObjectName::new("n", name))
}

#[tokio::test]
async fn a_status_write_enqueues_related_objects_only_and_an_equal_object_none() {
    let seen = enqueued(vec![
        Event::Init,
        Event::InitApply(pod("a", 1, "x")),
        Event::InitDone,
        Event::Apply(pod("a", 1, "x")),
        Event::Apply(pod("a", 1, "y")),
        Event::Apply(pod("a", 2, "y")),
        Event::Delete(pod("a", 2, "y")),
    ])
    .await;
    assert_eq!(
        seen,
        [own("a"), related("a"), related("a"), own("a"), related("a"),]
    );
}

#[tokio::test]
async fn a_record_of_creations_enqueues_nothing_and_another_annotation_its_object() {
    let annotated = |key: &str| {
        let mut pod = pod("a", 1, "x");
        pod.metadata.annotations = Some([(key.to_owned(), "{}".to_owned())].into());
        pod
    };
    let seen = enqueued(vec![
        Event::Init,
        Event::InitApply(pod("a", 1, "x")),
        Event::InitDone,
        Event::Apply(annotated(creations::ANNOTATION)),
        Event::Apply(pod("a", 1, "x")),
    ])
    .await;
    assert_eq!(seen, [own("a"), related("a")]);
    let seen = enqueued(vec![
        Event::Init,
        Event::InitApply(pod("a", 1, "x")),
        Event::InitDone,
        Event::Apply(annotated("other")),
    ])
    .await;
    assert_eq!(seen, [own("a"), related("a"), own("a")]);
}

/// A pass that began before the end of a list would find the objects of the list before in the store.
#[tokio::test]
async fn nothing_is_enqueued_before_a_list_is_complete() {
    let enqueued = Mutex::new(0);
    let events = vec![
        Event::Init,
        Event::InitApply(pod("a", 1, "x")),
        Event::InitDone,
        Event::Init,
        Event::InitApply(pod("a", 2, "x")),
        Event::InitApply(pod("b", 1, "x")),
        Event::InitDone,
    ];
    let at_last_list = Mutex::new(Vec::new());
    let events = stream::iter(events).inspect(|_| at_last_list.lock().push(*enqueued.lock()));
    let look = |pod: &Pod| Tracked {
        fingerprints: fingerprints_of(pod, &|_: &Pod, _: &mut DefaultHasher| ()),
        has_status: true,
        route: Route {
            own: vec![own(&pod.name_any())],
            related: Vec::new(),
        },
    };
    let count = |_: &Target| *enqueued.lock() += 1;
    Box::pin(follow(events.map(Ok), look, count)).await;
    assert_eq!(at_last_list.into_inner(), [0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(enqueued.into_inner(), 3);
}

#[tokio::test]
async fn a_removed_status_enqueues_its_object_and_the_first_status_does_not() {
    let seen = enqueued(vec![
        Event::Init,
        Event::InitApply(pod("a", 1, "")),
        Event::InitDone,
        Event::Apply(pod("a", 1, "x")),
        Event::Apply(pod("a", 1, "")),
        Event::Apply(pod("a", 1, "y")),
    ])
    .await;
    assert_eq!(
        seen,
        [
            own("a"),
            related("a"),
            related("a"),
            own("a"),
            related("a"),
            related("a"),
        ]
    );
}

#[test]
fn the_error_of_a_kind_that_is_not_served_is_logged_once() {
    let missing = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(
        kube::core::Status::failure(
            "the server could not find the requested resource",
            "NotFound",
        )
        .with_code(404),
    )));
    let missing = stable_text(&missing);
    assert_eq!(
        missing,
        "Kubernetes answered 404: the server could not find the requested resource"
    );
    let mut last_error = LastWatchError::default();
    let new: Vec<bool> = [missing.as_str(), &missing, "another", &missing]
        .into_iter()
        .map(|text| last_error.is_new(text))
        .collect();
    assert_eq!(new, [true, false, true, true]);
    assert!(last_error.is_over() && !last_error.is_over());
    assert!(last_error.is_new(&missing));
}

#[test]
fn only_an_answer_404_says_that_a_kind_is_not_served() {
    let failed = |code, message| {
        watcher::Error::WatchFailed(kube::Error::Api(Box::new(
            kube::core::Status::failure(message, "Reason").with_code(code),
        )))
    };
    let text = explained::<Pod>(&failed(404, "not found"));
    assert!(text.starts_with("v1 is not served; "), "{text}");
    // A resource version may contain the same digits.
    let text = explained::<Pod>(&failed(410, "too old resource version: 40412"));
    assert_eq!(
        text,
        "Kubernetes answered 410: too old resource version: 40412"
    );
}

#[tokio::test]
async fn a_new_list_enqueues_objects_that_changed_appeared_or_disappeared() {
    let seen = enqueued(vec![
        Event::Init,
        Event::InitApply(pod("a", 1, "x")),
        Event::InitApply(pod("b", 1, "x")),
        Event::InitApply(pod("c", 1, "x")),
        Event::InitDone,
        Event::Init,
        Event::InitApply(pod("a", 1, "x")),
        Event::InitApply(pod("b", 2, "x")),
        Event::InitDone,
        Event::Delete(pod("a", 1, "x")),
        Event::Apply(pod("a", 1, "x")),
    ])
    .await;
    assert_eq!(
        seen.get(6..),
        Some([own("b"), related("c"), related("a"), own("a"), related("a")].as_slice())
    );
}

#[test]
fn copies_of_objects_in_annotations_are_not_kept() {
    let annotated = |keys: &[&str]| {
        let mut pod = pod("a", 1, "");
        let annotations = keys.iter().map(|key| ((*key).to_owned(), "x".to_owned()));
        pod.metadata.annotations = Some(annotations.collect());
        pod.metadata.managed_fields = Some(Vec::new());
        trim(&mut pod);
        assert_eq!(pod.metadata.managed_fields, None);
        pod.metadata.annotations
    };
    assert_eq!(annotated(&COPIES), None);
    let kept = annotated(&[
        "cluster.x-k8s.io/conversion-data",
        "cluster.x-k8s.io/paused",
    ]);
    let kept: Vec<_> = kept.unwrap_or_default().into_keys().collect();
    assert_eq!(kept, ["cluster.x-k8s.io/paused"]);
}
