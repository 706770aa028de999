//! docs/figures.md: written by `make figures` from what the commands measured, and every figure keeps its promise.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use test_support::{
    figures::{Figures, folder},
    repository,
};

const PAGE: &str = "docs/figures.md";
const HEAD: &str = "\
# Figures, measured

`make figures` writes this page from the files in `target/figures`, which the commands of the fourth column leave there. The last column is the
git id of the folder `src` that was measured; `.ci/figures` names the figures that were measured with other sources than those of today. Each of
these commands fails when its promise is broken. [Rollouts, measured](rollouts.md) has the figures of the rollouts.

| figure | measured | promised, at most | command | sources |
|---|---:|---:|---|---|
";

/// A row of the table by the name of its figure.
fn rows(page: &str) -> BTreeMap<&str, &str> {
    page.lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .filter_map(|line| Some((line.strip_prefix("| ")?.split_once(" | ")?.0, line)))
        .collect()
}

/// What the files of `target/figures` add to the page, by the name of the figure.
fn measured() -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for file in fs::read_dir(folder()).into_iter().flatten() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let Figures {
            command,
            source,
            figures,
        } = serde_json::from_str(&text).unwrap();
        for one in figures {
            let row = format!(
                "| {} | {} {} | {} {} | `{command}` | {source} |",
                one.what, one.measured, one.unit, one.promised, one.unit
            );
            rows.insert(one.what, row);
        }
    }
    rows
}

/// The number at the begin of a cell such as `12.5 MB`.
fn number(cell: &str) -> f64 {
    let text = cell.split_whitespace().next().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no number: {cell}"))
}

#[test]
fn every_figure_keeps_its_promise() {
    let path = repository(PAGE);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("CAPO_RS_WRITE_FIGURES").is_some() {
        let mut all: BTreeMap<String, String> = rows(&committed)
            .into_iter()
            .map(|(what, row)| (what.to_owned(), row.to_owned()))
            .collect();
        all.extend(measured());
        let mut page = HEAD.to_owned();
        for row in all.values() {
            let _ = writeln!(page, "{row}");
        }
        fs::write(&path, page).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with(HEAD), "make figures writes {PAGE}");
    let rows = rows(&page);
    assert!(rows.len() >= 2, "{rows:?}");
    for row in rows.values() {
        let cells: Vec<&str> = row.split(" | ").collect();
        assert_eq!(cells.len(), 5, "{row}");
        assert!(number(cells[1]) <= number(cells[2]), "{row}");
    }
}
