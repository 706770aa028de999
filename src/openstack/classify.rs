//! From an error answer to its class, by status and by what the body says.

use super::error::{ConflictKind, ErrorClass};

/// The class of an error answer, and of a 409 its kind. `text` is what the body says;
/// `slow_down` is whether it came with a usable Retry-After.
pub(crate) fn classify(
    status: u16,
    text: &str,
    slow_down: bool,
) -> (ErrorClass, Option<ConflictKind>) {
    let text = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let quota = says(&QUOTA);
    let class = match status {
        401 => ErrorClass::Auth,
        // Octavia and Nova answer 403 to both a policy and a full quota, Neutron 409.
        403 | 409 if quota => ErrorClass::Quota,
        403 => ErrorClass::Denied,
        404 | 410 => ErrorClass::NotFound,
        // Cinder's full quota is a 413 with `Retry-After: 0`; an old-style rate limit is one too.
        413 if quota && !says(&["rate-limited", "rate limited"]) => ErrorClass::Quota,
        429 => ErrorClass::Throttled,
        413 | 503 if slow_down => ErrorClass::Throttled,
        408 | 425 | 500 | 502..=599 => ErrorClass::Transient,
        409 => {
            let kind = if says(&["immutable"]) {
                ConflictKind::Immutable
            } else if says(&["invalid state", "while it is in", "in state"]) {
                ConflictKind::InvalidState
            } else if says(&DUPLICATE) {
                ConflictKind::Duplicate
            } else if says(&IN_USE) {
                ConflictKind::InUse
            } else {
                ConflictKind::Other
            };
            return (ErrorClass::Conflict, Some(kind));
        }
        // 400, 405, 406, 413, 415, 422, 501 (the provider can't), and redirects, which are not followed.
        _ => ErrorClass::Invalid,
    };
    (class, None)
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
        use ConflictKind as K;
        use ErrorClass as C;
        let conflict = |kind| (C::Conflict, Some(kind));
        let table = [
            (401, "anything", false, (C::Auth, None)),
            (
                403,
                "Quota has been met for resources: Member",
                false,
                (C::Quota, None),
            ),
            (
                403,
                "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances",
                false,
                (C::Quota, None),
            ),
            (
                403,
                "Policy does not allow this request to be performed.",
                false,
                (C::Denied, None),
            ),
            (
                409,
                "Quota exceeded for resources: ['floatingip'].",
                false,
                (C::Quota, None),
            ),
            (
                409,
                "No more IP addresses available on network n.",
                false,
                (C::Quota, None),
            ),
            (
                413,
                "VolumeSizeExceedsAvailableQuota: Requested volume exceeds allowed gigabytes quota.",
                true,
                (C::Quota, None),
            ),
            (
                413,
                "This request was rate-limited.",
                true,
                (C::Throttled, None),
            ),
            (413, "Request Entity Too Large", false, (C::Invalid, None)),
            (429, "", false, (C::Throttled, None)),
            (503, "", true, (C::Throttled, None)),
            (503, "project busy", false, (C::Transient, None)),
            (500, "", false, (C::Transient, None)),
            (504, "Gateway Time-out", false, (C::Transient, None)),
            (
                501,
                "Provider 'ovn' does not support",
                false,
                (C::Invalid, None),
            ),
            (400, "Validation failure", false, (C::Invalid, None)),
            (404, "", false, (C::NotFound, None)),
            (
                409,
                "Load Balancer x is immutable and cannot be updated.",
                false,
                conflict(K::Immutable),
            ),
            (
                409,
                "Invalid state PENDING_UPDATE of loadbalancer resource x",
                false,
                conflict(K::InvalidState),
            ),
            (
                409,
                "Cannot 'delete' instance x while it is in vm_state building",
                false,
                conflict(K::InvalidState),
            ),
            (
                409,
                "Another member on this pool is already using ip 10.0.0.1 on protocol_port 6443",
                false,
                conflict(K::Duplicate),
            ),
            (
                409,
                "Security group rule already exists. Rule id is x.",
                false,
                conflict(K::Duplicate),
            ),
            (
                409,
                "Unable to complete operation on network x. There are one or more ports still in use on the network.",
                false,
                conflict(K::InUse),
            ),
            (409, "Router x still has ports", false, conflict(K::InUse)),
            (409, "something new", false, conflict(K::Other)),
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
