//! `berth ls --foreign`, `berth transcript ls` and `transcript show`: conversations that agents record themselves.

use std::path::{Path, PathBuf};

use berth_api::{Problem, ProblemCode};
use berth_verbs::export::exchange;
use berth_verbs::foreign::{
    self, AgentConversation, ConversationFilter, ConversationHolder, ConversationList, USUAL_PAST,
    conversation_text,
};
use berth_verbs::transcript_files;

use crate::args::{LsArgs, TranscriptLsArgs, TranscriptShowArgs};
use crate::ctx::CommandContext;
use crate::listing::row::short_home;
use crate::text_width::{column_width, cut_front_to_columns, cut_to_columns, one_line};
use crate::{print, tty};

/// Length of an id on a terminal, in characters: enough to tell conversations of one second apart.
const SHORT_ID: usize = 13;
/// Widest column of directories on a terminal.
const WIDEST_DIR: usize = 30;
/// Widest column of holders on a terminal.
const WIDEST_HOLDER: usize = 24;

/// Runs `berth ls --foreign`.
pub(crate) fn foreign(ctx: &CommandContext, args: &LsArgs) -> Result<u8, Problem> {
    let under = match (&args.which.cwd, args.which.here) {
        (Some(dir), _) => Some(directory(dir)?),
        (None, true) => Some(directory(Path::new("."))?),
        (None, false) => None,
    };
    let limit = match (args.all, args.limit) {
        (true, _) => None,
        (false, limit) => {
            Some(limit.map_or(USUAL_PAST, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
        }
    };
    let agent = args.which.agent.as_deref().map(foreign::kind).transpose()?;
    let found = foreign::list(ctx, &ConversationFilter { agent, under, ours_too: false, limit });
    if args.ids {
        let ids: String = found.conversations.iter().map(|one| format!("{}\n", one.id)).collect();
        print::text(&ids)?;
        return told(&found);
    }
    let nothing = "no conversations outside berth";
    shown(&found, args.json, nothing, "`berth ls --foreign --all`")
}

/// Runs `berth transcript ls`.
pub(crate) fn list(ctx: &CommandContext, args: &TranscriptLsArgs) -> Result<u8, Problem> {
    let agent = args.agent.as_deref().map(foreign::kind).transpose()?;
    let under = args.cwd.as_deref().map(directory).transpose()?;
    let limit = args.limit.map_or(USUAL_PAST, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let limit = (!args.all).then_some(limit);
    let found = foreign::list(ctx, &ConversationFilter { agent, under, ours_too: true, limit });
    shown(&found, args.json, "no conversations", "`berth transcript ls --all`")
}

/// Runs `berth transcript show`.
pub(crate) fn show(ctx: &CommandContext, args: &TranscriptShowArgs) -> Result<u8, Problem> {
    // A named file is read wherever it is: it may be a copy, or come from another account.
    let file = transcript_files::resolve_path(ctx, &args.conversation)?;
    let said = conversation_text::read(&file)?;
    if args.json {
        print::json(&said)?;
    } else {
        for (number, one) in said.exchanges.iter().enumerate() {
            print::text(&exchange(number + 1, one))?;
        }
    }
    if said.cut {
        print::note(&format!("the conversation is longer than shown; the whole is in {}", file.display()));
    }
    if said.bad_lines > 0 {
        print::note(&format!("{} lines cannot be read", said.bad_lines));
    }
    Ok(0)
}

/// The absolute path of a directory, as agents record it. The directory may no longer exist.
pub(crate) fn directory(dir: &Path) -> Result<PathBuf, Problem> {
    std::fs::canonicalize(dir)
        .or_else(|_| std::path::absolute(dir))
        .map_err(|error| Problem::usage(format!("cannot use the directory {}: {error}", dir.display())))
}

fn shown(found: &ConversationList, json: bool, nothing: &str, all: &str) -> Result<u8, Problem> {
    if json {
        print::json(&found.conversations)?;
        return told(found);
    }
    if found.conversations.is_empty() && found.more == 0 {
        print::note(nothing);
        return told(found);
    }
    print::text(&table(&found.conversations))?;
    if found.more > 0 {
        print::note(&format!("{} more: {all}", found.more));
    }
    told(found)
}

/// Prints the problems of a search, and returns its exit code.
fn told(found: &ConversationList) -> Result<u8, Problem> {
    for why in &found.damaged {
        print::problem(&Problem::refused(why.clone()));
    }
    Ok(if found.damaged.is_empty() { 0 } else { ProblemCode::Refused.exit_code() })
}

/// The process that has the conversation open. Its directory is left out: it is nearly always that of the conversation,
/// which has a column of its own.
fn holder_line(holder: &ConversationHolder) -> String {
    match &holder.terminal {
        Some(terminal) => format!("pid {} on {}", holder.pid, terminal.display()),
        None => format!("pid {}", holder.pid),
    }
}

fn table(all: &[AgentConversation]) -> String {
    let is_terminal = print::is_terminal();
    let columns = is_terminal.then(|| tty::terminal_size().map(|size| usize::from(size.cols))).flatten();
    let has_sessions = all.iter().any(|one| one.session.is_some());
    let mut rows = vec![["ID", "AGENT", "LAST", "OPEN IN", "DIRECTORY", "FIRST WORDS"].map(str::to_owned)];
    if has_sessions {
        rows[0][3] = "SESSION".to_owned();
    }
    for one in all {
        let id = if is_terminal { one.id.chars().take(SHORT_ID).collect() } else { one.id.clone() };
        let dir = one.cwd.as_ref().map(|dir| short_home(&dir.display().to_string())).unwrap_or_default();
        let words = one.title.as_deref().or(one.first_words.as_deref());
        let words = words.or(one.unreadable.as_deref()).unwrap_or_default();
        let holder = match (&one.session, one.held_by.is_empty()) {
            (_, false) => one.held_by.iter().map(holder_line).collect::<Vec<_>>().join(", "),
            (Some(session), true) => session.handle().to_owned(),
            (None, true) => "-".to_owned(),
        };
        rows.push([
            id,
            one.agent.clone(),
            print::age_since(one.last_activity_at),
            holder,
            dir,
            one_line(words),
        ]);
    }
    if columns.is_some() {
        for row in &mut rows {
            row[3] = cut_to_columns(&row[3], WIDEST_HOLDER);
            row[4] = cut_front_to_columns(&row[4], WIDEST_DIR);
        }
    }
    let widest = |column: usize| rows.iter().map(|row| column_width(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(widest).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, wide) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(wide - column_width(cell) + 2));
        }
        line.push_str(&row[5]);
        let line = columns.map_or(line.clone(), |columns| cut_to_columns(&line, columns));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
