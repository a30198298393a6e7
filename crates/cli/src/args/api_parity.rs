//! Tests that every command has operations of the API, and every operation a command, or a reason for the difference.
//!
//! Promise: the tables name every command and every operation, and docs/gateway.md shows the same rows.
//! Start with [`TABLE`].

use std::collections::BTreeSet;

use clap::CommandFactory;

use super::CliArgs;

/// How the API covers a command: through operations, or not at all, with the reason.
enum ApiCounterpart {
    Operations(&'static [&'static str]),
    Missing(&'static str),
}
use ApiCounterpart::{Missing, Operations};

/// Every command, with its operations. docs/gateway.md has these rows.
const TABLE: &[(&str, ApiCounterpart)] = &[
    ("run", Operations(&["create_session"])),
    ("resume", Operations(&["resume_session", "switch_interface"])),
    ("ls", Operations(&["list_sessions", "watch_sessions"])),
    ("show", Operations(&["get_session"])),
    ("why", Operations(&["why_session", "why_process"])),
    ("ps", Operations(&["session_processes", "processes", "port"])),
    ("attach", Operations(&["attach_terminal"])),
    ("input", Operations(&["type_input"])),
    ("screen", Operations(&["get_screen"])),
    ("output", Operations(&["get_output"])),
    ("log", Operations(&["list_events"])),
    ("grep", Operations(&["grep"])),
    ("export", Operations(&["export_session"])),
    ("stop", Operations(&["stop_session"])),
    ("wait", Operations(&["wait"])),
    ("send", Operations(&["send_turn"])),
    ("turns", Operations(&["list_turns"])),
    ("turn", Operations(&["get_turn", "transcript"])),
    ("result", Operations(&["get_result"])),
    ("cancel", Operations(&["cancel_turn"])),
    ("queue", Operations(&["get_queue"])),
    ("queue edit", Operations(&["change_turn"])),
    ("queue move", Operations(&["change_turn"])),
    ("queue drop", Operations(&["drop_turn"])),
    ("queue pause", Operations(&["change_queue"])),
    ("queue resume", Operations(&["change_queue"])),
    ("answer", Operations(&["answer"])),
    ("fork", Operations(&["fork_session"])),
    ("adopt", Operations(&["adopt_foreign"])),
    ("import", Operations(&["import_foreign"])),
    ("rename", Operations(&["change_session"])),
    ("use", Missing("the current session belongs to a terminal, and requests name their session")),
    ("tag", Operations(&["change_session"])),
    ("note", Operations(&["change_session"])),
    ("policy", Operations(&["change_session"])),
    ("archive", Operations(&["archive_session"])),
    ("restore", Operations(&["restore_session", "restore_history"])),
    ("history", Operations(&["get_history"])),
    ("purge", Operations(&["delete_session"])),
    ("helper ensure", Operations(&["ensure_helper"])),
    ("helper release", Operations(&["release_helper"])),
    ("helper ls", Operations(&["list_helpers"])),
    ("helper show", Operations(&["get_helper"])),
    ("helper stop", Operations(&["stop_helper"])),
    ("helper log", Operations(&["helper_log"])),
    ("helper output", Operations(&["helper_output"])),
    ("sweep", Operations(&["sweep"])),
    ("agents", Operations(&["agents"])),
    ("doctor", Operations(&["doctor"])),
    ("transcript ls", Operations(&["list_foreign"])),
    ("transcript show", Operations(&["get_foreign"])),
    ("transcript check", Operations(&["check_transcript", "check_foreign"])),
    ("transcript tree", Operations(&["transcript_tree", "foreign_tree"])),
    (
        "transcript repair",
        Missing("a repair writes files on that machine, where agents look for their transcripts"),
    ),
    ("token new", Operations(&["create_token"])),
    ("token ls", Operations(&["list_tokens"])),
    ("token revoke", Operations(&["revoke_token"])),
    ("link", Operations(&["create_link"])),
    (
        "audit",
        Missing(
            "the log names every token and address, and is read on the machine that has the state directory",
        ),
    ),
    ("openapi", Operations(&["openapi"])),
    (
        "hosts ls",
        Operations(&["list_hosts", "get_at_host", "post_at_host", "patch_at_host", "delete_at_host"]),
    ),
    ("hosts add", Missing("a browser must not make the gateway connect to arbitrary hosts")),
    ("hosts rm", Missing("as `hosts add`: the list of hosts is changed on that machine only")),
    ("notify test", Missing("a test runs the command that the config of that machine names")),
    ("notify log", Missing("the log has the texts of notifications about all sessions")),
    ("config", Missing("settings are files and variables of the account that runs the command")),
    ("setup", Missing("services and hooks belong to the account that runs the command")),
    ("serve", Missing("this command is the gateway")),
    ("proxy", Missing("this command is the gateway, on standard input and output")),
    ("acp", Missing("the server speaks with an editor on standard input and output")),
    ("mcp", Missing("the server speaks with an agent on standard input and output")),
    ("completions", Missing("completions are for a shell on that machine")),
    ("man", Missing("manual pages are read on that machine")),
    ("demo", Missing("the demo is for a terminal")),
];

/// Operations without a command, each with the reason.
const ONLY_THERE: &[(&str, &str)] = &[
    ("page", "for browsers"),
    ("page_file", "for browsers"),
    ("login_page", "for browsers"),
    ("login", "for browsers"),
    ("logout", "for browsers"),
    ("list_directories", "a shell completes directories"),
    ("session_changes", "`git status` lists the changes"),
    ("whoami", "a command runs as the owner"),
    ("health", "about the gateway itself"),
    ("ready", "about the gateway itself"),
    ("metrics", "for Prometheus"),
];

/// Every command that is not hidden. A command with subcommands is represented by them.
fn commands() -> Vec<String> {
    let whole = CliArgs::command();
    let shown =
        whole.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let names = |command: &clap::Command| {
        let name = command.get_name().to_owned();
        let below: Vec<String> = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set() && below.get_name() != "help")
            .map(|below| format!("{name} {}", below.get_name()))
            .collect();
        // All of `setup` counts as one command. `queue` without a subcommand shows the queue and counts as well.
        match name.as_str() {
            "setup" => vec![name],
            "queue" => below.into_iter().chain([name]).collect(),
            _ if below.is_empty() => vec![name],
            _ => below,
        }
    };
    shown.flat_map(names).collect()
}

#[test]
fn every_command_has_operations_of_the_api_or_a_reason_for_having_none() {
    let known: BTreeSet<&str> = TABLE.iter().map(|(command, _)| *command).collect();
    let commands = commands();
    let there: BTreeSet<&str> = commands.iter().map(String::as_str).collect();
    assert_eq!(known, there);
    let description = berth_gateway::openapi::openapi_document();
    let paths = description["paths"].as_object().expect("paths");
    let operations = paths.values().flat_map(|path| path.as_object().expect("operations").values());
    let described: BTreeSet<&str> = operations.filter_map(|it| it["operationId"].as_str()).collect();
    let of_commands = TABLE.iter().flat_map(|(_, by)| match by {
        Operations(names) => names.iter().copied(),
        Missing(_) => [].iter().copied(),
    });
    let named: BTreeSet<&str> = of_commands.chain(ONLY_THERE.iter().map(|(name, _)| *name)).collect();
    assert_eq!(named, described);
}

#[test]
fn the_page_about_the_gateway_shows_this_table() {
    let page = include_str!("../../../../docs/gateway.md");
    let rows: Vec<String> = TABLE
        .iter()
        .map(|(command, by)| match by {
            Operations(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("| `{command}` | {} |", names.join(" "))
            }
            Missing(why) => format!("| `{command}` | none: {why} |"),
        })
        .chain(ONLY_THERE.iter().map(|(name, why)| format!("| none: {why} | `{name}` |")))
        .collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/gateway.md has no such rows:\n{missing:#?}");
}
