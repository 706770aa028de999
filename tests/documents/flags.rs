//! docs/flags.md is written from the command line that the program parses.

use std::{collections::BTreeSet, fmt::Write as _};

use clap::{Arg, Command, builder::PossibleValue};
use test_support::repository;

/// One flag or argument as a row of a table.
fn row(argument: &Arg) -> String {
    let value = |name: &str| {
        let values = argument.get_possible_values();
        if values.is_empty() || !argument.get_action().takes_values() {
            name.to_owned()
        } else {
            let names: Vec<_> = values.iter().map(PossibleValue::get_name).collect();
            names.join("\\|")
        }
    };
    let names = argument.get_value_names().unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let placeholder = names.first().map_or("VALUE", |name| name.as_str());
    let shown = match argument.get_long() {
        Some(long) if takes_value => format!("--{long}={}", value(placeholder)),
        Some(long) => format!("--{long}"),
        None => value(placeholder),
    };
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .filter(|value| !value.is_empty() && takes_value)
        .collect();
    let default = if defaults.is_empty() {
        String::new()
    } else {
        format!("`{}`", defaults.join(","))
    };
    let help = argument.get_help().map(ToString::to_string);
    let help = help.unwrap_or_default().replace('|', "\\|");
    format!("| `{shown}` | {default} | {help} |\n")
}

/// The visible flags of `command` below this heading, which groups them; `None` is the group without a name.
fn table(command: &Command, heading: Option<&str>) -> String {
    let rows: String = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_help_heading() == heading)
        .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        .map(row)
        .collect();
    if rows.is_empty() {
        return rows;
    }
    format!("| flag | default | meaning |\n|---|---|---|\n{rows}\n")
}

fn page() -> String {
    let manager = capo_rs::cli::command_line();
    let mut page = "# Flags\n\nWritten from the code; `capo-rs --help` and `capo-rs COMMAND --help` print the same.\n\n\
         ## The manager\n\nWithout a command, `capo-rs` runs the manager. Flags of Cluster API Provider OpenStack (CAPO) keep \
         their names and, except `--kube-api-qps`, `--kube-api-burst` and `--v`, their defaults. Go's notation (`-v=4`, \
         `--leader_elect`) is accepted. Durations are written as in Go: `90s`, `2m`, `1h30m`. A value that is not allowed ends the \
         program with exit code 2 and names the flag, the value and what is allowed.\n\n"
        .to_owned();
    let mut headings = Vec::new();
    for argument in manager.get_arguments() {
        let heading = argument.get_help_heading();
        if heading.is_some() && !headings.contains(&heading) && !argument.is_hide_set() {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = write!(
            page,
            "### {}\n\n{}",
            heading.unwrap_or_default(),
            table(&manager, heading)
        );
    }
    let ignored: Vec<String> = manager
        .get_arguments()
        .filter(|argument| argument.is_hide_set())
        .filter_map(|argument| Some(format!("`--{}`", argument.get_long()?)))
        .collect();
    let _ = writeln!(
        page,
        "### Flags of CAPO without an effect\n\nThey are accepted, so that CAPO's arguments can be kept, and the log names \
         those that are set: {}.\n\n## Commands",
        ignored.join(", ")
    );
    for command in manager.get_subcommands() {
        let about = command.get_about().map(ToString::to_string);
        let _ = write!(
            page,
            "\n### capo-rs {}\n\n{}.\n\n{}",
            command.get_name(),
            about.unwrap_or_default(),
            table(command, None)
        );
    }
    format!("{}\n", page.trim_end())
}

/// The flags of a page with their defaults.
fn flags(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter(|line| line.starts_with("| `--"))
        .map(|line| line.rsplit_once(" | ").map_or(line, |(flag, _)| flag))
        .collect()
}

/// Written by `make documents`, which also takes over new flags and other words.
#[test]
fn the_page_of_flags_lists_flags_and_defaults_that_exist() {
    let page = page();
    let path = repository("docs/flags.md");
    if std::env::var_os("CAPO_RS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    let (listed, known) = (flags(&committed), flags(&page));
    assert!(listed.len() > 40, "{listed:?}");
    let unknown: Vec<_> = listed.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "make documents writes docs/flags.md: {unknown:?}"
    );
}
