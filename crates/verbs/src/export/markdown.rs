//! Transcript of a session as Markdown for people: prompts, actions of the agent, answers.
//!
//! Promise: a turn that is not done says so, and an unknown outcome is called unknown; quoted text cannot break out of
//! its quotation.
//! Start with [`write()`].

use std::path::Path;

use berth_api::record::AgentInterface;
use berth_api::turn::TurnView;
use berth_api::{Problem, Timestamp, TurnState};
use berth_screen::{ScreenSize, ScrolledText};

use super::{ExportRecords, ExportWriter, SessionExport};
use crate::foreign::conversation_text::{self, ConversationText};
use crate::format;
use crate::progress::ProgressSink;
use crate::transcript::{TranscriptExtent, TranscriptItem, TranscriptToolUse, items, unreadable};

const READ_BYTES: usize = 64 * 1024;
/// Limit for the part of a command that a summary shows.
const SUMMARY_CHARS: usize = 100;

/// Writes the transcript.
pub fn write(
    session: &SessionExport,
    progress: &dyn ProgressSink,
    target: &mut ExportWriter<'_>,
) -> Result<(), Problem> {
    target(head(session).as_bytes())?;
    let end = session.output.end().unwrap_or(0).min(session.until);
    progress.begin(end.saturating_sub(session.from));
    match &session.own {
        ExportRecords::Nothing => {}
        ExportRecords::Before(record) => {
            let said = record.read()?;
            if !said.exchanges.is_empty() {
                target(format!("\n## Before berth adopted it\n\n{}", source(&record.path)).as_bytes())?;
                recorded(&said, target)?;
            }
        }
        ExportRecords::Terminal { files, is_all } => {
            for path in files {
                let said = conversation_text::read(path)?;
                target(format!("\n## Conversation\n\n{}", source(path)).as_bytes())?;
                recorded(&said, target)?;
            }
            if *is_all {
                return Ok(());
            }
        }
    }
    if !session.takes_turns() {
        return terminal(session, end, progress, target);
    }
    for turn in &session.turns {
        let calls = match turn.output_from {
            // The terminal's output is no record of the agent's actions.
            Some(_) if turn.interface == Some(AgentInterface::Terminal) => Vec::new(),
            Some(from) => {
                let until = session.turn_outputs.end(turn.number).map_or(end, |until| until.min(end));
                tools(items(&session.output, from, until, TranscriptExtent::Whole, progress)?.items)
            }
            None => Vec::new(),
        };
        target(one(session, turn, &calls).as_bytes())?;
    }
    if session.turns.is_empty() && !matches!(session.own, ExportRecords::Before(_)) {
        target(b"\nNothing was said yet.\n")?;
    }
    if let Some(damage) = &session.damage {
        target(format!("\n---\n\nThis is not all: {}\n", line(&damage.what)).as_bytes())?;
    }
    Ok(())
}

/// The source of the dialogue that follows.
fn source(path: &Path) -> String {
    format!("_From the agent's transcript, {}._\n", code(&path.display().to_string()))
}

/// The dialogue from an agent's transcript.
fn recorded(said: &ConversationText, target: &mut ExportWriter<'_>) -> Result<(), Problem> {
    for (number, one) in said.exchanges.iter().enumerate() {
        target(format!("\n#{}", exchange(number + 1, one).trim_end()).as_bytes())?;
        target(b"\n")?;
    }
    if said.cut {
        target(b"\n_The transcript has more than this export._\n")?;
    }
    Ok(())
}

/// The tools that the agent used.
fn tools(items: Vec<TranscriptItem>) -> Vec<TranscriptToolUse> {
    let tool = |item| match item {
        TranscriptItem::Tool(tool) => Some(*tool),
        TranscriptItem::Text { .. } | TranscriptItem::Thought { .. } => None,
    };
    items.into_iter().filter_map(tool).collect()
}

fn head(session: &SessionExport) -> String {
    let status = &session.status;
    let agent = status.what.agent.clone().unwrap_or_else(|| status.what.driver.clone());
    let mut rows = vec![
        ("Agent", format!("{agent}: {}", code(&format::command_line(&status.what.command, 200)))),
        ("Directory", code(&status.what.cwd)),
        ("Created", status.created_at.to_string()),
        ("State", status.state.to_string()),
        ("Session", code(session.id.as_str())),
    ];
    rows.extend(status.conversation_id.as_ref().map(|id| ("Conversation", code(id))));
    rows.extend(format::exit_summary(status).map(|how| ("Last run", line(&how))));
    if !status.tags.is_empty() {
        rows.push(("Tags", line(&status.tags.join(", "))));
    }
    rows.extend(status.note.as_ref().map(|note| ("Note", line(note))));
    let rows: String = rows.into_iter().map(|(label, value)| format!("- {label}: {value}\n")).collect();
    format!("# {}\n\n{rows}", line(status.handle()))
}

fn one(session: &SessionExport, turn: &TurnView, calls: &[TranscriptToolUse]) -> String {
    let mut facts = vec![turn.accepted_at.to_string(), format!("from {}", line(&turn.by.place))];
    let took = turn.delivered_at.zip(turn.ended_at);
    facts
        .extend(took.map(|(from, to)| format!("took {}", format::describe_age(to.0.saturating_sub(from.0)))));
    let tokens = turn.input_tokens.zip(turn.output_tokens);
    facts.extend(tokens.map(|(input, output)| format!("{input} tokens in, {output} out")));
    let number = format!("{}.{}", line(session.status.handle()), turn.number);
    let mut text = format!("\n## {number}: {}\n\n_{}_\n\n", turn.state, facts.join(" · "));
    text.push_str(&quoted(&turn.prompt));
    calls.iter().for_each(|call| text.push_str(&details(call)));
    for given in &turn.answers {
        let (who, tool, reply) = (line(&given.by.place), line(&given.tool), line(&given.reply.to_string()));
        let asked = given.detail.lines().next().unwrap_or_default();
        text.push_str(&format!("\n_{who} answered {tool} ({}): {reply}_\n", line(asked)));
    }
    let answer = turn.answer.as_deref().map(str::trim_end).filter(|answer| !answer.is_empty());
    text.extend(answer.map(|answer| format!("\n{}\n", plain(answer))));
    if turn.cut {
        text.push_str("\n_The answer is longer; all of it is in the output._\n");
    }
    text.extend(ending(turn).map(|how| format!("\n**{how}**\n")));
    for late in &turn.late {
        text.push_str(&format!("\n_Said after the turn was over:_\n\n{}\n", plain(late.answer.trim_end())));
    }
    text
}

/// One prompt of a conversation without berth, and the agent's actions and answer.
pub fn exchange(number: usize, one: &crate::foreign::conversation_text::ConversationExchange) -> String {
    let at = one.at.map(|at| format!(": {at}")).unwrap_or_default();
    let mut text = format!("## {number}{at}\n\n");
    text.extend(one.prompt.as_ref().map(|prompt| quoted(prompt)));
    for item in &one.items {
        match item {
            TranscriptItem::Text { text: said, .. } => {
                text.push_str(&format!("\n{}\n", plain(said.trim_end())))
            }
            TranscriptItem::Thought { .. } => {}
            TranscriptItem::Tool(tool) => text.push_str(&details(tool)),
        }
    }
    text.push('\n');
    text
}

/// The note on a turn that is not simply done.
fn ending(turn: &TurnView) -> Option<String> {
    let why = turn.reason.as_deref().map(|why| format!(": {}", line(why))).unwrap_or_default();
    match turn.state {
        TurnState::Done if why.is_empty() => None,
        TurnState::Done => Some(format!("Done{why}")),
        TurnState::Failed => Some(format!("Failed{why}")),
        TurnState::Cancelled => {
            let by = turn.cancelled_by.as_ref().map(|by| format!(" by {}", line(&by.place)));
            Some(format!("Cancelled{}{why}", by.unwrap_or_default()))
        }
        TurnState::Interrupted => Some(format!("Interrupted{why}. Its changes up to that point remain.")),
        TurnState::Unknown => Some(format!(
            "Unknown{why}. It was given to the agent, and its end is unknown; it was not repeated."
        )),
        TurnState::Queued => Some(match &turn.held {
            Some(held) => format!("Not begun: {}", line(held)),
            None => "Not begun yet: it waits".to_owned(),
        }),
        state @ (TurnState::Delivered | TurnState::Working) => {
            Some(format!("Not over yet: {state} at {}", Timestamp(berth_host::clock::wall_ms())))
        }
    }
}

fn details(call: &TranscriptToolUse) -> String {
    let name = if call.name.is_empty() { "a tool" } else { &call.name };
    let failed = if call.is_error { " (failed)" } else { "" };
    // Some agents name a tool by its arguments.
    let is_named_so = call.given.is_empty() || call.given.starts_with(name);
    let summary = if is_named_so { name.to_owned() } else { format!("{name}: {}", call.given) };
    let summary = html(&format::first_words(&summary, SUMMARY_CHARS)) + failed;
    let output = match &call.output {
        Some(output) => fenced(output),
        None => "_The result is unknown._\n".to_owned(),
    };
    let input = if call.given.is_empty() { String::new() } else { fenced(&call.given) + "\n" };
    format!("\n<details><summary>{summary}</summary>\n\n{input}{output}\n</details>\n")
}

/// The output of a terminal as text: the lines that scrolled away, and the screen at the end.
fn terminal(
    session: &SessionExport,
    end: u64,
    progress: &dyn ProgressSink,
    target: &mut ExportWriter<'_>,
) -> Result<(), Problem> {
    target(b"\n## Output\n\n")?;
    let (mut offset, mut buffer) = (session.from, vec![0; READ_BYTES]);
    // The last size of the terminal: output at another size is wrapped as if it had been this one.
    let mut scroll = ScrolledText::new(ScreenSize { rows: session.status.rows, cols: session.status.cols });
    while offset < end {
        let (count, at) = session
            .output
            .read_at(offset, &mut buffer)
            .map_err(|error| unreadable(session.output.display(), &error))?;
        let count = count.min(usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        offset = at + count as u64;
        progress.add(count as u64);
        let mut text = String::new();
        scroll.feed(&buffer[..count], &mut text);
        target(indented(&text).as_bytes())?;
    }
    target(indented(&scroll.end()).as_bytes())
}

/// An indented block: no text can end it.
fn indented(lines: &str) -> String {
    let line = |line: &str| match line.is_empty() {
        true => "\n".to_owned(),
        false => format!("    {}\n", format::escape_control_characters(line)),
    };
    lines.lines().map(line).collect()
}

/// Text that is Markdown already, as agents write it, without terminal controls. A block that it leaves open, because
/// it was cut or broken off, is closed: the turns after it are not part of it.
fn plain(text: &str) -> String {
    let mut text = format::escape_control_characters(text);
    let mut open: Option<String> = None;
    for line in text.lines() {
        let line = line.trim_start_matches(' ');
        let Some(mark) = line.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let fence: String = line.chars().take_while(|c| *c == mark).collect();
        match &open {
            None if fence.len() >= 3 => open = Some(fence),
            Some(begun) if fence.starts_with(begun.as_str()) && line.trim_end() == fence => open = None,
            None | Some(_) => {}
        }
    }
    text.extend(open.map(|fence| format!("\n{fence}")));
    text
}

fn quoted(text: &str) -> String {
    format::escape_control_characters(text.trim_end())
        .lines()
        .map(|line| format!("> {line}").trim_end().to_owned() + "\n")
        .collect()
}

/// A fenced block with a fence longer than any in the text, so that the text cannot end it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}\n", format::escape_control_characters(text.trim_end()))
}

/// A few words as inline code, so that Markdown shows them unchanged.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", line(text))
}

/// The text on one line.
fn line(text: &str) -> String {
    format::escape_control_characters(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn html(text: &str) -> String {
    format::escape_control_characters(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_left_open_is_closed_and_no_other() {
        assert_eq!(plain("a\n```rust\nlet x"), "a\n```rust\nlet x\n```");
        assert_eq!(plain("~~~~\n~~~\n```"), "~~~~\n~~~\n```\n~~~~");
        for whole in ["no block", "```\nx\n```", "`code`", "```\nx\n````\nbehind", "~~~\n```\n~~~"] {
            assert_eq!(plain(whole), whole);
        }
    }

    #[test]
    fn quoted_text_cannot_end_its_block() {
        assert_eq!(fenced("a ```` b"), "`````\na ```` b\n`````\n");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(quoted("one\n\n# two\n"), "> one\n>\n> # two\n");
        assert_eq!(html("<b>&"), "&lt;b&gt;&amp;");
    }
}
