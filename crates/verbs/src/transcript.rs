//! Transcript of a session, turn by turn, in items for display: text, thoughts, uses of tools.
//!
//! Promise: nothing is made up: an item without a name or an end is shown without it. Memory is bounded by one line of
//! the agent's output, and by the limits for an item and for a turn.
//! Not here: the display (see `export::markdown`, and the page).
//! Start with [`page`]; `heard` parses the agents' lines, `agent_record` reads dialogue that only the agent's transcript
//! has.

mod agent_record;
mod item;
mod item_collector;

use std::io;

use berth_api::Problem;
use berth_api::record::AgentInterface;
use berth_api::turn::{TurnPage, TurnView};
use berth_core::SessionId;
use berth_driver::output::OutputLines;
use berth_store::output::OutputFiles;
use berth_transcript::read_budget;
use schemars::JsonSchema;
use serde::Serialize;

pub use item::{FileDiff, TranscriptItem, TranscriptToolUse};

use crate::context::VerbContext;
use crate::foreign::conversation_text::ConversationExchange;
use crate::progress::ProgressSink;
use crate::turns;
pub(crate) use agent_record::{AgentRecord, find as find_own_record, own_files};
pub(crate) use item_collector::ItemCollector;

const READ_BYTES: usize = 256 * 1024;
/// Limit for the output of one turn that is read for a page. The rest is only in the output.
const MAX_READ_BYTES: u64 = 64 << 20;
/// Limit for the items of one turn on a page, and for those of all its turns.
const MAX_TURN_BYTES: usize = 1 << 20;
const MAX_PAGE_BYTES: usize = 4 << 20;
/// Limit for the output that is read for all turns of a page.
const MAX_PAGE_READ_BYTES: u64 = 256 << 20;
/// Default number of turns on a page.
pub const USUAL_TURNS: usize = 20;
/// Limit for the turns of a page.
pub const MOST_TURNS: usize = 100;

/// A page of a transcript.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Transcript")]
pub struct TranscriptPage {
    /// Turns, in the order in which they were accepted.
    pub turns: Vec<TranscriptTurn>,
    /// Number for `after` that gives the next page; null on the last page.
    pub next_after: Option<u64>,
    /// Dialogue before the first turn, by the agent's transcript: of a conversation that began without berth, or that
    /// runs in the agent's own terminal interface. Only on the page that begins with the first turn.
    pub record: Option<RecordedConversation>,
}

/// A part of a conversation, from the record that the agent keeps itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordedConversation")]
pub struct RecordedConversation {
    /// The agent that keeps the record: `claude` or `codex`.
    pub agent: &'static str,
    /// Prompts with their actions and answers, in order.
    pub exchanges: Vec<ConversationExchange>,
    /// Value of `before` that gives the exchanges before these; null if these are the first.
    pub before: Option<u64>,
}

/// A turn with its items.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TranscriptTurn")]
pub struct TranscriptTurn {
    /// The turn; its fields are on the same level as `items`.
    #[serde(flatten)]
    pub turn: TurnView,
    /// Texts, thoughts and uses of tools, in order.
    pub items: Vec<TranscriptItem>,
    /// Source of the items.
    pub items_from: ItemSource,
    /// True if the turn has more items; the output has all.
    pub items_cut: bool,
}

/// Source of a turn's items.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemSource {
    /// The output of the agent to its keeper.
    #[default]
    Agent,
    /// The record that the agent keeps itself: the agent has a terminal interface of its own.
    Record,
}

/// The turns after the turn `after`, with their items. The page that begins with the first turn has the dialogue before
/// it as well.
pub fn page(ctx: &VerbContext, id: &SessionId, after: u64, limit: usize) -> Result<TranscriptPage, Problem> {
    let status = ctx.known(id)?.0;
    let has_terminal = status.what.has_terminal();
    let own = agent_record::find(ctx, id, &status)?;
    if has_terminal && status.turns.is_none() && own.is_none() {
        let what = format!("session `{}` is a terminal and has no turns", status.handle());
        return Err(Problem::refused(what).hint("its screen and its output have what it showed"));
    }
    let TurnPage { turns: views, total, .. } =
        turns::page(ctx, id, after.saturating_add(1), limit as u64, MAX_PAGE_BYTES)?;
    let session = ctx.home.session(id);
    let (output, past) = (session.output(), session.past()?);
    let end = output.end().map_err(|error| unreadable(output.display(), &error))?;
    // The output of a terminal is not a record of the dialogue.
    let has_items = |view: &TurnView| view.interface != Some(AgentInterface::Terminal);
    let delivered = views.iter().filter(|view| has_items(view) && view.output_from.is_some());
    let ends = past.output_ends(&delivered.map(|view| view.number).collect::<Vec<_>>())?;
    let mut page = TranscriptPage { turns: Vec::new(), next_after: None, record: None };
    let (mut bytes, mut read_bytes) = (0, 0);
    for view in views {
        if bytes > MAX_PAGE_BYTES || read_bytes > MAX_PAGE_READ_BYTES {
            break;
        }
        let items = match view.output_from.filter(|_| has_items(&view)) {
            Some(from) => {
                let until = ends.get(&view.number).map_or(end, |until| end.min(*until));
                read_bytes += until.saturating_sub(from).min(MAX_READ_BYTES);
                items(&output, from, until, TranscriptExtent::Page, &())?
            }
            None => TurnItems::default(),
        };
        let told = transcript_turn(view, items);
        bytes += told.turn.text_bytes() + told.items.iter().map(TranscriptItem::bytes).sum::<usize>();
        page.turns.push(told);
    }
    page.next_after = page.turns.last().map(|last| last.turn.number).filter(|last| *last < total);
    if let Some(own) = own {
        if has_terminal {
            own.fill(&mut page.turns)?;
        }
        if after == 0 {
            let first = page.turns.first().map(|told| &told.turn).filter(|_| has_terminal);
            page.record = own.before_turns(first, None, limit)?;
        }
    }
    Ok(page)
}

/// The exchanges of the agent's transcript before the offset `before`; without turns.
pub fn earlier(
    ctx: &VerbContext,
    id: &SessionId,
    before: u64,
    limit: usize,
) -> Result<TranscriptPage, Problem> {
    let status = ctx.known(id)?.0;
    let record = match agent_record::find(ctx, id, &status)? {
        Some(own) => own.before_turns(None, Some(before), limit)?,
        None => None,
    };
    Ok(TranscriptPage { turns: Vec::new(), next_after: None, record })
}

fn transcript_turn(turn: TurnView, items: TurnItems) -> TranscriptTurn {
    let TurnItems { mut items, is_cut } = items;
    // The answer of a turn may be nowhere else: output is not kept for ever.
    let says_something = items.iter().any(|item| matches!(item, TranscriptItem::Text { .. }));
    if let Some(answer) = turn.answer.as_deref().filter(|answer| !says_something && !answer.is_empty()) {
        items.push(TranscriptItem::text(answer));
    }
    TranscriptTurn { turn, items, items_from: ItemSource::Agent, items_cut: is_cut }
}

/// The items of a turn.
#[derive(Debug, Default)]
pub(crate) struct TurnItems {
    pub(crate) items: Vec<TranscriptItem>,
    /// True if there were more.
    pub(crate) is_cut: bool,
}

/// Amount of a turn's items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TranscriptExtent {
    /// As many as fit on a page.
    Page,
    /// All items.
    Whole,
}

/// The items in the output from `from` to `until`, in order.
pub(crate) fn items(
    output: &OutputFiles,
    from: u64,
    until: u64,
    extent: TranscriptExtent,
    progress: &dyn ProgressSink,
) -> Result<TurnItems, Problem> {
    let read_to = match extent {
        TranscriptExtent::Page => until.min(from.saturating_add(MAX_READ_BYTES)),
        TranscriptExtent::Whole => until,
    };
    let mut heard = ItemCollector::default();
    let (mut offset, mut lines) = (from, OutputLines::default());
    let mut buffer = vec![0; READ_BYTES];
    let mut is_cut = read_to < until;
    while offset < read_to {
        let (count, at) =
            output.read_at(offset, &mut buffer).map_err(|error| unreadable(output.display(), &error))?;
        let count = count.min(usize::try_from(read_to.saturating_sub(at)).unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        offset = at + count as u64;
        progress.add(count as u64);
        read_budget::check_not_abandoned().map_err(|error| unreadable(output.display(), &error))?;
        lines.feed(&buffer[..count], |line| match line {
            Some(line) => heard.hear(line),
            None => is_cut = true,
        });
        if extent == TranscriptExtent::Page && heard.bytes() > MAX_TURN_BYTES {
            is_cut = true;
            break;
        }
    }
    Ok(TurnItems { items: heard.items(), is_cut })
}

/// The error for a file that cannot be read.
pub(crate) fn unreadable(place: impl std::fmt::Display, error: &io::Error) -> Problem {
    Problem::refused(format!("cannot read {place}: {error}"))
        .hint("check that you may read it and that the disk is healthy")
}
