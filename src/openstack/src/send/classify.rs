//! Derives the class of an error answer from its status and its text.

use capo_core::FailureClass;

/// The class of an error answer. `text` is the text of the body; `slow_down` is whether the answer had a usable
/// Retry-After.
pub(crate) fn classify(status: u16, text: &str, slow_down: bool) -> FailureClass {
    let text = text.to_lowercase();
    let has_any = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let quota = has_any(&QUOTA);
    match status {
        401 => FailureClass::Auth,
        // Octavia and Nova answer 403 both when a policy denies the call and when a quota is used up. Neutron answers
        // 409 to the latter.
        403 | 409 if quota => FailureClass::Quota,
        // Neutron answers 400 when an external network has no free address for a floating IP.
        400 if text.contains("unable to find any ip address on external network") => {
            FailureClass::Quota
        }
        403 => FailureClass::Denied,
        404 | 410 => FailureClass::NotFound,
        // Cinder answers 413 with `Retry-After: 0` when a quota is used up. An old-style rate limit is a 413 too.
        413 if quota && !has_any(&["rate-limited", "rate limited"]) => FailureClass::Quota,
        429 => FailureClass::Throttled,
        413 | 503 if slow_down => FailureClass::Throttled,
        408 | 425 | 500 | 502..=599 => FailureClass::Transient,
        409 if has_any(&["immutable", "invalid state", "while it is in", "in state"]) => {
            FailureClass::Locked
        }
        409 if has_any(&DUPLICATE) => FailureClass::Duplicate,
        409 if has_any(&IN_USE) => FailureClass::InUse,
        409 => FailureClass::Conflict,
        501 => FailureClass::NotImplemented,
        // 400, 405, 406, 413, 415, 422, and redirects, which are not followed.
        _ => FailureClass::Invalid,
    }
}

const QUOTA: [&str; 5] = [
    "quota",
    "maximum number of ports exceeded",
    "limit exceeded",
    "exceeds allowed",
    "no more ip addresses available",
];

const DUPLICATE: [&str; 6] = [
    "already using",
    "already exists",
    "already has",
    "another listener",
    "duplicate",
    "rule exists",
];

const IN_USE: [&str; 8] = [
    "still attached",
    "in use",
    "in-use",
    "still has",
    "still in",
    "one or more ports",
    "being used",
    "already allocated",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_words_decide() {
        use FailureClass as C;
        let table = [
            (401, "anything", false, C::Auth),
            (
                403,
                "Quota has been met for resources: Member",
                false,
                C::Quota,
            ),
            (
                403,
                "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances",
                false,
                C::Quota,
            ),
            (
                403,
                "Policy does not allow this request to be performed.",
                false,
                C::Denied,
            ),
            (
                409,
                "Quota exceeded for resources: ['floatingip'].",
                false,
                C::Quota,
            ),
            (
                409,
                "No more IP addresses available on network n.",
                false,
                C::Quota,
            ),
            (
                413,
                "VolumeSizeExceedsAvailableQuota: Requested volume exceeds allowed gigabytes quota.",
                true,
                C::Quota,
            ),
            (413, "This request was rate-limited.", true, C::Throttled),
            (413, "Request Entity Too Large", false, C::Invalid),
            (429, "", false, C::Throttled),
            (503, "", true, C::Throttled),
            (503, "project busy", false, C::Transient),
            (500, "", false, C::Transient),
            (504, "Gateway Time-out", false, C::Transient),
            (
                501,
                "Provider 'ovn' does not support",
                false,
                C::NotImplemented,
            ),
            (400, "Validation failure", false, C::Invalid),
            (
                400,
                "Unable to find any IP address on external network n.",
                false,
                C::Quota,
            ),
            (
                400,
                "IP address 10.0.0.1 is not a valid IP for the specified subnet.",
                false,
                C::Invalid,
            ),
            (404, "", false, C::NotFound),
            (
                409,
                "Load Balancer x is immutable and cannot be updated.",
                false,
                C::Locked,
            ),
            (
                409,
                "Invalid state PENDING_UPDATE of loadbalancer resource x",
                false,
                C::Locked,
            ),
            (
                409,
                "Cannot 'delete' instance x while it is in vm_state building",
                false,
                C::Locked,
            ),
            (
                409,
                "Another member on this pool is already using ip 10.0.0.1 on protocol_port 6443",
                false,
                C::Duplicate,
            ),
            (
                409,
                "Security group rule already exists. Rule id is x.",
                false,
                C::Duplicate,
            ),
            (
                409,
                "Unable to complete operation on network x. There are one or more ports still in use on the network.",
                false,
                C::InUse,
            ),
            (409, "Router x still has ports", false, C::InUse),
            (
                409,
                "IP address 203.0.113.7 already allocated in subnet s",
                false,
                C::InUse,
            ),
            (409, "something new", false, C::Conflict),
        ];
        for (status, text, slow_down, expected) in table {
            assert_eq!(
                classify(status, text, slow_down),
                expected,
                "{status} {text}"
            );
        }
    }
}
