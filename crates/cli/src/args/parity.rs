//! What the command line can and the API cannot, and the other way round: nothing without a reason.

use std::collections::BTreeSet;

use clap::CommandFactory;

use super::Args;

/// Who does what a command does: operations of the API, or nobody, for a reason.
enum By {
    Operations(&'static [&'static str]),
    Nobody(&'static str),
}
use By::{Nobody, Operations};

/// Every command. docs/gateway.md shows the same.
const TABLE: &[(&str, By)] = &[
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
    ("use", Nobody("the current session is a terminal's, and requests name theirs")),
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
    ("transcript repair", Nobody("it writes files at a path of that machine, where agents look for theirs")),
    ("token new", Operations(&["create_token"])),
    ("token ls", Operations(&["list_tokens"])),
    ("token revoke", Operations(&["revoke_token"])),
    ("link", Operations(&["create_link"])),
    ("audit", Nobody("it names every token and address, and is read where the state directory is")),
    ("openapi", Operations(&["openapi"])),
    (
        "hosts ls",
        Operations(&["list_hosts", "get_at_host", "post_at_host", "patch_at_host", "delete_at_host"]),
    ),
    ("hosts add", Nobody("a browser must not make the gateway connect to anywhere")),
    ("hosts rm", Nobody("as `hosts add`: which hosts there are is said on that machine")),
    ("notify test", Nobody("it runs the command that the config of that machine names")),
    ("notify log", Nobody("it has the words that people were told, of all sessions")),
    ("config", Nobody("it is about the files and variables of the account that runs it")),
    ("setup", Nobody("it writes services and hooks for the account that runs it")),
    ("serve", Nobody("it is the gateway")),
    ("proxy", Nobody("it is the gateway, on standard input and output")),
    ("acp", Nobody("it speaks with an editor on standard input and output")),
    ("mcp", Nobody("it speaks with an agent on standard input and output")),
    ("completions", Nobody("it is about a shell")),
    ("man", Nobody("it is about reading here")),
    ("demo", Nobody("it is a show for a terminal")),
];

/// What the API has beyond that.
const ONLY_THERE: &[(&str, &str)] = &[
    ("page", "it is for browsers"),
    ("page_file", "it is for browsers"),
    ("login_page", "it is for browsers"),
    ("login", "it is for browsers"),
    ("logout", "it is for browsers"),
    ("list_directories", "a shell completes directories"),
    ("session_changes", "`git status` lists them"),
    ("whoami", "a command runs as the owner"),
    ("health", "it is about the gateway"),
    ("ready", "it is about the gateway"),
    ("metrics", "it is for Prometheus"),
];

/// The commands there are; of those that have some below them, these.
fn commands() -> Vec<String> {
    let whole = Args::command();
    let shown =
        whole.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let names = |command: &clap::Command| {
        let name = command.get_name().to_owned();
        let below: Vec<String> = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set() && below.get_name() != "help")
            .map(|below| format!("{name} {}", below.get_name()))
            .collect();
        // What sets things up is one thing, whatever it sets up; the queue is shown by its bare name.
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
fn whatever_a_command_does_the_api_does_or_there_is_a_reason() {
    let known: BTreeSet<&str> = TABLE.iter().map(|(command, _)| *command).collect();
    let commands = commands();
    let there: BTreeSet<&str> = commands.iter().map(String::as_str).collect();
    assert_eq!(known, there);
    let description = berth_gateway::openapi::description();
    let paths = description["paths"].as_object().expect("paths");
    let operations = paths.values().flat_map(|path| path.as_object().expect("operations").values());
    let described: BTreeSet<&str> = operations.filter_map(|it| it["operationId"].as_str()).collect();
    let of_commands = TABLE.iter().flat_map(|(_, by)| match by {
        Operations(names) => names.iter().copied(),
        Nobody(_) => [].iter().copied(),
    });
    let named: BTreeSet<&str> = of_commands.chain(ONLY_THERE.iter().map(|(name, _)| *name)).collect();
    assert_eq!(named, described);
}

#[test]
fn the_page_about_the_gateway_shows_the_same_table() {
    let page = include_str!("../../../../docs/gateway.md");
    let rows: Vec<String> = TABLE
        .iter()
        .map(|(command, by)| match by {
            Operations(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("| `{command}` | {} |", names.join(" "))
            }
            Nobody(why) => format!("| `{command}` | none: {why} |"),
        })
        .chain(ONLY_THERE.iter().map(|(name, why)| format!("| none: {why} | `{name}` |")))
        .collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/gateway.md has no such rows:\n{missing:#?}");
}
