//! `berth agents`: the known agents, with path and version of those that are installed.

mod version;

use std::path::PathBuf;
use std::time::Duration;

use berth_api::Problem;
use serde::Serialize;

use crate::agents::{AgentDefinition, AgentSource, AgentTable, TuiStart};
use crate::args::AgentsArgs;
use crate::print;
use crate::safe_text::{SafeText, TextStyle};
use version::{VersionQuery, VersionReply};

/// Length at which a command line is cut, in characters.
const LONG: usize = 500;

pub(crate) fn run(args: &AgentsArgs) -> Result<u8, Problem> {
    let table = AgentTable::load()?;
    let agents: Vec<&AgentDefinition> = match &args.name {
        Some(name) => vec![table.find(name)?],
        None => table.iter().collect(),
    };
    let rows = agent_rows(&agents, args.timeout)?;
    match (&args.name, args.json) {
        (Some(_), true) => rows.first().map(print::json).transpose()?.unwrap_or_default(),
        (Some(_), false) => print::text(&rows.iter().map(|row| in_full(row, &table)).collect::<SafeText>())?,
        (None, true) => print::json(&rows)?,
        (None, false) => {
            print::text(&table_of(&rows))?;
            missing(&rows).iter().for_each(print::note);
        }
    }
    Ok(0)
}

/// An agent with its program and version on this host.
#[derive(Serialize)]
struct AgentRow<'a> {
    name: &'a str,
    about: Option<&'a str>,
    driver: &'static str,
    #[serde(rename = "conversation_kind")]
    conversation: Option<&'a str>,
    installed: bool,
    version: Option<String>,
    /// The reason why there is no version or no program.
    trouble: Option<String>,
    path: Option<String>,
    command: Vec<String>,
    tui: Option<&'a [String]>,
    install: Option<&'a str>,
    source: &'static str,
    #[serde(skip)]
    agent: &'a AgentDefinition,
    #[serde(skip)]
    answer: Option<VersionReply>,
}

/// Locates the programs of these agents, and asks the installed ones for their versions.
fn agent_rows<'a>(agents: &[&'a AgentDefinition], limit: Duration) -> Result<Vec<AgentRow<'a>>, Problem> {
    let cwd = std::env::current_dir()
        .map_err(|error| Problem::refused(format!("cannot tell the current directory: {error}")))?;
    let located: Vec<_> = agents.iter().map(|agent| agent.locate(&agent.command, &cwd)).collect();
    let questions: Vec<Option<VersionQuery<'_>>> = std::iter::zip(agents, &located)
        .map(|(agent, program)| {
            let (program, args) = (program.as_ref().ok()?, agent.version.as_ref()?);
            Some(VersionQuery { program, args, env: &agent.env })
        })
        .collect();
    let answers = version::ask_all(&questions, limit);
    let rows = agents.iter().zip(located).zip(answers);
    Ok(rows.map(|((agent, program), answer)| AgentRow::new(agent, program, answer)).collect())
}

impl<'a> AgentRow<'a> {
    fn new(
        agent: &'a AgentDefinition,
        program: Result<PathBuf, Problem>,
        answer: Option<VersionReply>,
    ) -> Self {
        let version = answer.as_ref().and_then(VersionReply::version);
        let no_version = answer.as_ref().and_then(|answer| answer.trouble(agent));
        let (path, trouble) = match program {
            Ok(path) => (Some(path.display().to_string()), no_version),
            Err(problem) => (None, Some(problem.what)),
        };
        Self {
            name: &agent.name,
            about: agent.about.as_deref(),
            driver: agent.driver.name(),
            conversation: agent.conversation.as_deref(),
            installed: path.is_some(),
            version,
            trouble,
            path,
            command: agent.structured_command(&[]),
            tui: agent.tui.as_deref(),
            install: agent.install.as_deref(),
            source: agent.source.name(),
            agent,
            answer,
        }
    }

    /// The text in the column of versions.
    fn version_cell(&self) -> String {
        match &self.answer {
            _ if !self.installed => "not installed".to_owned(),
            None => "installed".to_owned(),
            Some(answer) => answer.in_a_word(&self.agent.version.as_deref().unwrap_or_default().join(" ")),
        }
    }

    fn path_cell(&self) -> String {
        self.path.clone().unwrap_or_else(|| "-".to_owned())
    }
}

fn table_of(rows: &[AgentRow<'_>]) -> SafeText {
    let head = ["NAME", "DRIVER", "VERSION", "WHERE"].map(str::to_owned);
    let cells = rows
        .iter()
        .map(|row| [row.name.to_owned(), row.driver.to_owned(), row.version_cell(), row.path_cell()]);
    let cells: Vec<[String; 4]> = std::iter::once(head).chain(cells).collect();
    let width = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    let screen = crate::tty::terminal_size().map_or(usize::MAX, |size| usize::from(size.cols));
    let room = screen.saturating_sub(widths.iter().sum::<usize>() + 2 * 4).max(10);
    let commands = rows.iter().map(|row| print::command_line(&row.command, room));
    let commands = std::iter::once("STARTED AS".to_owned()).chain(commands);
    let mut text = SafeText::default();
    for (at, (row, command)) in cells.iter().zip(commands).enumerate() {
        let is_missing = at > 0 && !rows[at - 1].installed;
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padded = format!("{cell:width$}", width = *width);
            text.push(if is_missing && column == 2 {
                print::painted(TextStyle::Dim, cell, *width)
            } else {
                padded.into()
            });
            text.push("  ");
        }
        text.push(command + "\n");
    }
    text
}

/// A line that says how to install a missing agent; `None` if none is missing.
fn missing(rows: &[AgentRow<'_>]) -> Option<String> {
    let missing: Vec<&AgentRow<'_>> = rows.iter().filter(|row| !row.installed).collect();
    let (first, install) = missing.iter().find_map(|row| Some((row.name, row.install?)))?;
    Some(match missing.len() {
        1 => format!("to install {first}: `{install}`"),
        count => format!(
            "{count} are not installed: `berth agents NAME` says how to get one, as in `{install}` for {first}"
        ),
    })
}

fn in_full(row: &AgentRow<'_>, table: &AgentTable) -> SafeText {
    let agent = row.agent;
    let line = |command: &[String]| print::command_line(command, LONG);
    let mut lines = vec![("agent", row.name.to_owned())];
    lines.extend(row.about.map(|about| ("what", about.to_owned())));
    lines.push(("driver", row.driver.to_owned()));
    let writes =
        row.conversation.map_or("none that berth knows of".to_owned(), |kind| format!("of kind {kind}"));
    lines.push(("writes", format!("conversations {writes}")));
    match (&row.path, &row.version) {
        (None, _) => lines.push(("installed", "no".to_owned())),
        (Some(path), version) => {
            lines.push(("installed", path.clone()));
            lines.extend(version.clone().map(|version| ("version", version)));
        }
    }
    lines.extend(row.trouble.clone().map(|trouble| ("trouble", trouble)));
    lines.push(("started as", line(&row.command)));
    for (label, begin) in [
        ("terminal", TuiStart::Fresh),
        ("  new id", TuiStart::FreshAs("ID")),
        ("  resume", TuiStart::Resume("ID")),
    ] {
        lines.extend(agent.tui_command(begin, &[]).ok().map(|command| (label, line(&command))));
    }
    // The values may be secrets.
    let variables: Vec<&str> = agent.env.iter().map(|(name, _)| name.as_str()).collect();
    lines.extend((!variables.is_empty()).then(|| ("variables", variables.join(", "))));
    lines.extend(row.install.map(|install| ("install", install.to_owned())));
    let source = match (agent.source, table.config()) {
        (AgentSource::Config { spot }, Some(path)) => format!("config, {}:{spot}", path.display()),
        (AgentSource::Config { .. } | AgentSource::BuiltIn, _) => agent.source.name().to_owned(),
    };
    lines.push(("source", source));
    print::key_value_lines(lines, TextStyle::Dim)
}
