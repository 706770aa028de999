//! Damages texts in ways that parsers stumble over.

use rand::{Rng, RngExt};

/// Pieces that mean something to whoever reads JSON or YAML, or to us.
const PIECES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1e999",
    "-0.0",
    "18446744073709551616",
    "4294967296",
    "\"\"",
    "{}",
    "[]",
    "[{}]",
    "{\"\":0}",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\u{feff}",
    "\\",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n- ",
    "&a *a",
    "!!binary ",
    "\"spec\":",
    "\"status\":",
    "\"metadata\":",
    "\"annotations\":",
    "\"conditions\":",
    "\"ports\":",
    "\"flavor\":",
    "\"flavorID\":",
    "\"bastion\":",
    "\"template\":",
    "\"failureDomains\":",
    "\"controlPlaneEndpoint\":",
    "\"apiServer\":",
    "\"managedNetwork\":",
    "\"externalRouterIPs\":",
    "\"resolved\":",
    "\"infrastructure.cluster.x-k8s.io/v1beta1-fields\":",
    "\"cluster.x-k8s.io/conversion-data\":",
    "v1beta1",
    "v1beta2",
    "OpenStackCluster",
    "OpenStackMachine",
    "hold ",
    "bypass ",
    "until=",
    "reason=",
    "9999-12-31T23:59:59Z",
    "password",
    "auth_type",
    "v3applicationcredential",
];

/// A damaged copy of one of `corpus`, at most `longest` bytes.
pub(crate) fn damaged(corpus: &[Vec<u8>], longest: usize, random: &mut impl Rng) -> Vec<u8> {
    let mut input = corpus[random.random_range(0..corpus.len())].clone();
    for _ in 0..random.random_range(1..=6) {
        let at = random.random_range(0..=input.len());
        let end = random.random_range(at..=input.len().min(at + 64));
        match random.random_range(0..9) {
            0 if !input.is_empty() => {
                let at = at.min(input.len() - 1);
                input[at] ^= 1 << random.random_range(0..8);
            }
            1 => drop(input.drain(at..end)),
            2 => {
                let piece = input[at..end].to_vec();
                splice(&mut input, at, &piece);
            }
            3 => {
                let piece = PIECES[random.random_range(0..PIECES.len())];
                splice(&mut input, at, piece.as_bytes());
            }
            4 => {
                let piece = PIECES[random.random_range(0..PIECES.len())];
                input.splice(at..end, piece.bytes());
            }
            5 => {
                let other = &corpus[random.random_range(0..corpus.len())];
                let from = random.random_range(0..=other.len());
                let to = random.random_range(from..=other.len().min(from + 512));
                let piece = other[from..to].to_vec();
                splice(&mut input, at, &piece);
            }
            6 => replace_value(&mut input, at, random),
            7 => {
                let opening = if random.random() { "[" } else { "{\"a\":" };
                splice(
                    &mut input,
                    at,
                    opening.repeat(random.random_range(1..2000)).as_bytes(),
                );
            }
            _ => input.truncate(at),
        }
    }
    input.truncate(longest);
    input
}

fn splice(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}

/// Puts another value after the next colon, which leaves most of the text in order.
fn replace_value(input: &mut Vec<u8>, at: usize, random: &mut impl Rng) {
    let Some(colon) = input[at..].iter().position(|byte| *byte == b':') else {
        return;
    };
    let from = at + colon + 1;
    let rest = &input[from..];
    let quoted = rest.iter().find(|byte| **byte != b' ') == Some(&b'"');
    let end = if quoted {
        rest.iter()
            .skip(2)
            .position(|byte| *byte == b'"')
            .map(|end| end + 3)
    } else {
        rest.iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b'\n'))
    };
    let to = from + end.unwrap_or(0).min(rest.len());
    let piece = PIECES[random.random_range(0..16)];
    input.splice(from..to, piece.bytes());
}
