//! docs/reasons.md is written from the code.

use capo_core::Reason;
use capo_rs::status::explanation;
use test_support::repository;

/// `CAPO_RS_WRITE_DOCS=1 cargo test --test documents reasons::` writes the page.
#[test]
fn the_page_of_reasons_is_that_of_the_code() {
    let rows: Vec<String> = Reason::ALL
        .iter()
        .map(|reason| format!("| `{reason}` | {} |\n", reason.meaning()))
        .collect();
    let rows = rows.concat();
    let sections: Vec<String> = Reason::ALL
        .iter()
        .map(|reason| {
            let explained = explanation(*reason);
            format!(
                "\n## {reason}\n\n{}\n\n**What ends it.** {}\n",
                explained.seen, explained.ends
            )
        })
        .collect();
    // Without the backslash, a browser would treat <text> as an element.
    let sections = sections.concat().replace('<', "\\<");
    let page = format!(
        "# Reasons\n\nThe same words in conditions, events, metrics and `capo-rs explain`. Written from the code.\n\n\
         | reason | meaning |\n|---|---|\n{rows}{sections}"
    );
    let path = repository("docs/reasons.md");
    if std::env::var_os("CAPO_RS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert_eq!(committed, page, "docs/reasons.md is not that of the code");
}
