//! Picks the object that is meant among those that were found: by the known id, or else if it is the only one. It never
//! guesses.

use super::{StepError, StepResult};
use capo_core::Reason;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Match<T> {
    /// No object matches.
    None,
    /// This object matches.
    One(T),
    /// Several objects match, and none has the known id. These are their ids, sorted.
    Several(Vec<String>),
}

/// Picks the object with the id `known`, or the only one there is.
pub(crate) fn resolve<T, Id>(found: Vec<T>, known: Option<&Id>, id: impl Fn(&T) -> &Id) -> Match<T>
where
    Id: AsRef<str> + PartialEq + ?Sized,
{
    if let Some(at) = found.iter().position(|one| Some(id(one)) == known) {
        return found.into_iter().nth(at).map_or(Match::None, Match::One);
    }
    if found.len() > 1 {
        let mut ids: Vec<String> = found
            .iter()
            .map(|one| id(one).as_ref().to_owned())
            .collect();
        ids.sort();
        return Match::Several(ids);
    }
    found.into_iter().next().map_or(Match::None, Match::One)
}

impl<T> Match<T> {
    /// Returns the object that matches, if any. Several objects are an error; `what` describes the match in the
    /// message.
    pub(crate) fn at_most_one(self, condition: &'static str, what: &str) -> StepResult<Option<T>> {
        match self {
            Self::None => Ok(None),
            Self::One(one) => Ok(Some(one)),
            Self::Several(ids) => Err(StepError::refused(
                condition,
                Reason::AmbiguousMatch,
                format!(
                    "{what} matches {} objects ({}), but must match exactly one; nothing is changed until the others are \
                     renamed or removed",
                    ids.len(),
                    ids.join(", ")
                ),
            )),
        }
    }

    /// Returns the object that matches. None and several are errors; `what` describes the match in the message.
    pub(crate) fn exactly_one(self, condition: &'static str, what: &str) -> StepResult<T> {
        self.at_most_one(condition, what)?.ok_or_else(|| {
            StepError::refused(
                condition,
                Reason::DependencyNotFound,
                format!("{what} matches nothing in this project, but must match exactly one"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(found: &[&str], known: Option<&str>) -> Match<String> {
        let found = found.iter().map(ToString::to_string).collect();
        resolve(found, known, String::as_str)
    }

    #[test]
    fn the_known_one_else_the_only_one() {
        assert_eq!(picked(&[], None), Match::None);
        assert_eq!(picked(&["a"], None), Match::One("a".to_owned()));
        assert_eq!(picked(&["a"], Some("b")), Match::One("a".to_owned()));
        assert_eq!(picked(&["b", "a"], Some("a")), Match::One("a".to_owned()));
        assert_eq!(
            picked(&["b", "a"], Some("c")),
            Match::Several(vec!["a".to_owned(), "b".to_owned()])
        );
    }

    #[test]
    fn several_stop_everything_and_name_what_is_needed() {
        let step_error = picked(&["b", "a"], None)
            .at_most_one("NetworkReady", "Network \"n\"")
            .unwrap_err();
        assert_eq!(step_error.state.reason, Reason::AmbiguousMatch);
        assert!(
            step_error
                .state
                .message
                .starts_with("Network \"n\" matches 2 objects (a, b)")
        );
    }
}
