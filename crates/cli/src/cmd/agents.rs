//! `berth agents`: the agents there are, and which of them this host has.

mod version;

use std::path::PathBuf;
use std::time::Duration;

use berth_api::{Code, Problem};
use serde::Serialize;

use crate::agents::{Agent, Source, Table, TuiBegin};
use crate::args::Agents;
use crate::print;
use crate::visible::{Paint, Visible};
use version::{Answer, Question};

/// What is shown of a command line in full.
const LONG: usize = 500;

pub(crate) fn run(args: &Agents) -> Result<u8, Problem> {
    let table = Table::load()?;
    let agents: Vec<&Agent> = match &args.name {
        Some(name) => vec![table.find(name)?],
        None => table.iter().collect(),
    };
    let rows = look(&agents, args.timeout)?;
    match (&args.name, args.json) {
        (Some(_), true) => rows.first().map(print::json).transpose()?.unwrap_or_default(),
        (Some(_), false) => print::text(&rows.iter().map(|row| in_full(row, &table)).collect::<Visible>())?,
        (None, true) => print::json(&rows)?,
        (None, false) => {
            print::text(&table_of(&rows))?;
            missing(&rows).iter().for_each(print::note);
        }
    }
    Ok(0)
}

/// An agent, and what was found of it.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    about: Option<&'a str>,
    driver: &'static str,
    #[serde(rename = "conversation_kind")]
    conversation: Option<&'a str>,
    installed: bool,
    version: Option<String>,
    /// Why there is no version, or no program.
    trouble: Option<String>,
    path: Option<String>,
    command: Vec<String>,
    tui: Option<&'a [String]>,
    install: Option<&'a str>,
    source: &'static str,
    #[serde(skip)]
    agent: &'a Agent,
    #[serde(skip)]
    answer: Option<Answer>,
}

/// Looks for all of them, and asks those that are there for their versions.
fn look<'a>(agents: &[&'a Agent], limit: Duration) -> Result<Vec<Row<'a>>, Problem> {
    let cwd = std::env::current_dir().map_err(|error| {
        Problem::new(Code::Refused, format!("cannot tell which directory this is: {error}"))
    })?;
    let located: Vec<_> = agents.iter().map(|agent| agent.locate(&agent.command, &cwd)).collect();
    let questions: Vec<Option<Question<'_>>> = std::iter::zip(agents, &located)
        .map(|(agent, program)| {
            let (program, args) = (program.as_ref().ok()?, agent.version.as_ref()?);
            Some(Question { program, args, env: &agent.env })
        })
        .collect();
    let answers = version::ask_all(&questions, limit);
    let rows = agents.iter().zip(located).zip(answers);
    Ok(rows.map(|((agent, program), answer)| Row::new(agent, program, answer)).collect())
}

impl<'a> Row<'a> {
    fn new(agent: &'a Agent, program: Result<PathBuf, Problem>, answer: Option<Answer>) -> Self {
        let version = answer.as_ref().and_then(Answer::version);
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

    /// What stands in the column of versions.
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

fn table_of(rows: &[Row<'_>]) -> Visible {
    let head = ["NAME", "DRIVER", "VERSION", "WHERE"].map(str::to_owned);
    let cells = rows
        .iter()
        .map(|row| [row.name.to_owned(), row.driver.to_owned(), row.version_cell(), row.path_cell()]);
    let cells: Vec<[String; 4]> = std::iter::once(head).chain(cells).collect();
    let width = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    let screen = crate::tty::size().map_or(usize::MAX, |size| usize::from(size.cols));
    let room = screen.saturating_sub(widths.iter().sum::<usize>() + 2 * 4).max(10);
    let commands = rows.iter().map(|row| print::command_line(&row.command, room));
    let commands = std::iter::once("STARTED AS".to_owned()).chain(commands);
    let mut text = Visible::default();
    for (at, (row, command)) in cells.iter().zip(commands).enumerate() {
        let is_missing = at > 0 && !rows[at - 1].installed;
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padded = format!("{cell:width$}", width = *width);
            text.push(if is_missing && column == 2 {
                print::painted(Paint::Dim, cell, *width)
            } else {
                padded.into()
            });
            text.push("  ");
        }
        text.push(command + "\n");
    }
    text
}

/// How to get those that are not there, in a line.
fn missing(rows: &[Row<'_>]) -> Option<String> {
    let missing: Vec<&Row<'_>> = rows.iter().filter(|row| !row.installed).collect();
    let (first, install) = missing.iter().find_map(|row| Some((row.name, row.install?)))?;
    Some(match missing.len() {
        1 => format!("to install {first}: `{install}`"),
        count => format!(
            "{count} are not installed: `berth agents NAME` says how to get one, as in `{install}` for {first}"
        ),
    })
}

fn in_full(row: &Row<'_>, table: &Table) -> Visible {
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
        ("terminal", TuiBegin::Fresh),
        ("  new id", TuiBegin::FreshAs("ID")),
        ("  resume", TuiBegin::Resume("ID")),
    ] {
        lines.extend(agent.tui_command(begin, &[]).ok().map(|command| (label, line(&command))));
    }
    // The values may be secrets.
    let variables: Vec<&str> = agent.env.iter().map(|(name, _)| name.as_str()).collect();
    lines.extend((!variables.is_empty()).then(|| ("variables", variables.join(", "))));
    lines.extend(row.install.map(|install| ("install", install.to_owned())));
    let source = match (agent.source, table.config()) {
        (Source::Config { spot }, Some(path)) => format!("config, {}:{spot}", path.display()),
        (Source::Config { .. } | Source::BuiltIn, _) => agent.source.name().to_owned(),
    };
    lines.push(("source", source));
    print::labelled(lines, Paint::Dim)
}
