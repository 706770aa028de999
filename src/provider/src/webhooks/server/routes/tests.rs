use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::http::CertificateObserver;

/// The number of requests that began, and the statuses of those that ended.
#[derive(Default)]
struct Requests(Mutex<(usize, Vec<u16>)>);

impl Requests {
    fn ended(&self) -> Vec<u16> {
        self.0.lock().1.clone()
    }
}

impl CertificateObserver for Requests {}

impl WebhookObserver for Requests {
    fn request_began(&self, _: &'static str) {
        self.0.lock().0 += 1;
    }

    fn request_ended(&self, _: &'static str, code: u16, _: Duration) {
        self.0.lock().1.push(code);
    }
}

#[test]
fn a_review_that_panics_is_counted_as_ended() {
    let requests = Arc::new(Requests::default());
    let observer = Arc::clone(&requests) as Arc<dyn WebhookObserver>;
    let reviewed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _counted = Counted::begin(observer, CONVERT);
        panic!("on purpose");
    }));
    assert!(reviewed.is_err());
    assert_eq!(requests.ended(), [500]);
}
