//! What was said and done in a session, turn by turn, in pieces that can be shown: text, thoughts, uses of tools.
//!
//! Promise: nothing is made up: what has no name or no end is shown without. Memory is bounded by one line of the
//! agent's, by what is kept of each item, and by what is kept of a turn.
//! Not here: how it looks (see `export::markdown`, and the page).
//! Start with [`page`]; `heard` understands the agents' lines, `own_record` reads what berth was not told.

mod heard;
mod item;
mod own_record;

use std::io;

use berth_api::record::Interface;
use berth_api::turn::TurnView;
use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_driver::output::OutputLines;
use berth_store::output::OutputFiles;
use berth_transcript::allowance;
use schemars::JsonSchema;
use serde::Serialize;

pub use item::{Diff, Item, Tool};

use crate::ctx::Ctx;
use crate::foreign::said::Exchange;
use crate::progress::Progress;
use crate::turns;
pub(crate) use heard::Heard;
pub(crate) use own_record::{OwnRecord, find as find_own_record, own_files};

const READ_BYTES: usize = 256 * 1024;
/// How much of what the agent wrote in one turn is read for a page. The rest is in the output.
const MAX_READ_BYTES: u64 = 64 << 20;
/// How much of one turn a page has, and of all of its turns.
const MAX_TURN_BYTES: usize = 1 << 20;
const MAX_PAGE_BYTES: usize = 4 << 20;
/// How much of what the agent wrote is read for all turns of a page.
const MAX_PAGE_READ_BYTES: u64 = 256 << 20;
/// How many turns a page has if nobody says, and at most.
pub const USUAL_TURNS: usize = 20;
/// The most turns of a page.
pub const MOST_TURNS: usize = 100;

/// A part of a transcript.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Transcript")]
pub struct Page {
    /// Turns, in the order in which they were accepted.
    pub turns: Vec<Told>,
    /// Where to go on: the number to ask for turns behind. Nothing if this was the end.
    pub next_after: Option<u64>,
    /// What was said before the first turn, by the agent's own record: of a conversation that began without berth, or
    /// that runs in the agent's own terminal interface. Only in the page that begins with the first turn.
    pub record: Option<Recorded>,
}

/// A part of a conversation, from the record that the agent keeps itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordedConversation")]
pub struct Recorded {
    /// The agent that keeps the record: `claude` or `codex`.
    pub agent: &'static str,
    /// What was said and what came of it, in order.
    pub exchanges: Vec<Exchange>,
    /// The value of `before` that gives what was said before these exchanges; nothing if they are the first.
    pub before: Option<u64>,
}

/// A turn and what happened in it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TranscriptTurn")]
pub struct Told {
    /// The turn.
    #[serde(flatten)]
    pub turn: TurnView,
    /// What was said and done, in order.
    pub items: Vec<Item>,
    /// Where the items are from.
    pub items_from: ItemsFrom,
    /// There is more than these items: the output has all.
    pub items_cut: bool,
}

/// Where the items of a turn are from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemsFrom {
    /// From what the agent told its keeper.
    #[default]
    Agent,
    /// From the record that the agent keeps itself: it has a terminal interface of its own.
    Record,
}

/// The turns behind the turn `after`, and what happened in them. The page that begins with the first turn has what was
/// said before it as well.
pub fn page(ctx: &Ctx, id: &SessionId, after: u64, limit: usize) -> Result<Page, Problem> {
    let status = ctx.known(id)?.0;
    let has_terminal = status.what.has_terminal();
    let own = own_record::find(ctx, id, &status)?;
    if has_terminal && status.turns.is_none() && own.is_none() {
        let what = format!("session `{}` is a terminal and has no turns", status.handle());
        return Err(Problem::new(Code::Refused, what).hint("its screen and its output have what it showed"));
    }
    let views = turns::read_views(ctx, id, status.keeper_silent)?;
    let output = ctx.home.session(id).output();
    let end = output.end().map_err(|error| unreadable(output.display(), &error))?;
    let mut begins: Vec<u64> = views.iter().filter_map(|view| view.output_from).collect();
    begins.sort_unstable();
    let first = views.first().filter(|_| has_terminal).cloned();
    let mut page = Page { turns: Vec::new(), next_after: None, record: None };
    let (mut bytes, mut read_bytes) = (0, 0);
    for view in views.into_iter().filter(|view| view.number > after) {
        let number = page.turns.last().map_or(after, |told: &Told| told.turn.number);
        if page.turns.len() >= limit || bytes > MAX_PAGE_BYTES || read_bytes > MAX_PAGE_READ_BYTES {
            page.next_after = Some(number);
            break;
        }
        let until = |from: u64| begins.iter().copied().find(|begin| *begin > from).unwrap_or(end).min(end);
        let items = match view.output_from {
            // What a terminal showed is not a record of what was said.
            Some(_) if view.interface == Some(Interface::Terminal) => Items::default(),
            Some(from) => {
                read_bytes += until(from).saturating_sub(from).min(MAX_READ_BYTES);
                items(&output, from, until(from), Extent::Page, &())?
            }
            None => Items::default(),
        };
        let told = told(view, items);
        bytes += told.turn.text_bytes() + told.items.iter().map(Item::bytes).sum::<usize>();
        page.turns.push(told);
    }
    if let Some(own) = own {
        if has_terminal {
            own.fill(&mut page.turns)?;
        }
        if after == 0 {
            page.record = own.before_turns(first.as_ref(), None, limit)?;
        }
    }
    Ok(page)
}

/// What the agent's own record has before `before`, a place in it: no turns.
pub fn earlier(ctx: &Ctx, id: &SessionId, before: u64, limit: usize) -> Result<Page, Problem> {
    let status = ctx.known(id)?.0;
    let record = match own_record::find(ctx, id, &status)? {
        Some(own) => own.before_turns(None, Some(before), limit)?,
        None => None,
    };
    Ok(Page { turns: Vec::new(), next_after: None, record })
}

fn told(turn: TurnView, items: Items) -> Told {
    let Items { mut items, is_cut } = items;
    // What it said may be nowhere else: output is not kept for ever.
    let says_something = items.iter().any(|item| matches!(item, Item::Text { .. }));
    if let Some(answer) = turn.answer.as_deref().filter(|answer| !says_something && !answer.is_empty()) {
        items.push(Item::text(answer));
    }
    Told { turn, items, items_from: ItemsFrom::Agent, items_cut: is_cut }
}

/// What happened in a turn.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) items: Vec<Item>,
    /// There was more.
    pub(crate) is_cut: bool,
}

/// How much of a turn is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// As much as fits on a page.
    Page,
    /// All of it.
    Whole,
}

/// What happened in the output from `from` to `until`, in order.
pub(crate) fn items(
    output: &OutputFiles,
    from: u64,
    until: u64,
    extent: Extent,
    progress: &dyn Progress,
) -> Result<Items, Problem> {
    let read_to = match extent {
        Extent::Page => until.min(from.saturating_add(MAX_READ_BYTES)),
        Extent::Whole => until,
    };
    let mut heard = Heard::default();
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
        allowance::still_wanted().map_err(|error| unreadable(output.display(), &error))?;
        lines.feed(&buffer[..count], |line| match line {
            Some(line) => heard.hear(line),
            None => is_cut = true,
        });
        if extent == Extent::Page && heard.bytes() > MAX_TURN_BYTES {
            is_cut = true;
            break;
        }
    }
    Ok(Items { items: heard.items(), is_cut })
}

/// What cannot be read.
pub(crate) fn unreadable(place: impl std::fmt::Display, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot read {place}: {error}"))
        .hint("check that you may read it and that the disk is healthy")
}
