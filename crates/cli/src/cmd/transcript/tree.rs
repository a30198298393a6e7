//! `berth transcript tree`: draws the branches of a conversation.
//!
//! The path that a resume takes is a line from top to bottom; branches that it leaves behind are drawn beside it.

use std::fmt::Write;

use berth_api::Problem;
use berth_verbs::transcript_files;
use berth_verbs::transcript_files::tree::{ConversationTree, TurnOpening};

use super::moment;
use crate::args::TranscriptTreeArgs;
use crate::ctx::CommandContext;
use crate::progress::DeferredProgress;
use crate::safe_text::{SafeText, TextStyle};
use crate::{print, text_width, tty};

/// Width if standard output is not a terminal, in columns.
const USUAL_WIDTH: usize = 100;
/// Depth from which branches of branches are no longer indented.
const MAX_DEPTH: usize = 12;

pub(super) fn run(ctx: &CommandContext, args: &TranscriptTreeArgs) -> Result<u8, Problem> {
    let path = transcript_files::resolve_path(ctx, &args.file)?;
    let progress = DeferredProgress::new("reading (MiB)");
    let tree = transcript_files::tree_of(&path, &progress)?;
    drop(progress);
    if args.json {
        print::json(&tree)?;
        return Ok(0);
    }
    if tree.turns.is_empty() {
        return Err(Problem::refused(format!("nothing was said in {}", path.display()))
            .hint("`berth transcript check` says what is in it"));
    }
    let room = tty::terminal_size().map_or(USUAL_WIDTH, |size| usize::from(size.cols));
    let paint = tty::wants_colour();
    let mut drawing =
        TreeDrawing { tree: &tree, below: below(&tree), room, paint, text: SafeText::default() };
    let roots: Vec<usize> = (0..tree.turns.len()).filter(|at| tree.turns[*at].follows.is_none()).collect();
    let (left, taken): (Vec<usize>, Vec<usize>) = roots.into_iter().partition(|at| !tree.turns[*at].resumed);
    for root in left.into_iter().chain(taken) {
        drawing.line(root);
    }
    if tree.more_turns > 0 {
        let _ = writeln!(drawing.text, "and {} turns more", tree.more_turns);
    }
    print::text(&drawing.text)?;
    if print::is_terminal() && tree.turns.iter().any(|turn| !turn.resumed) {
        print::note("a resume goes on with the turns marked ●, and leaves those marked ○ behind");
    }
    Ok(0)
}

/// The turns that follow each turn, by index.
fn below(tree: &ConversationTree) -> Vec<Vec<usize>> {
    let mut below = vec![Vec::new(); tree.turns.len()];
    for (at, turn) in tree.turns.iter().enumerate() {
        if let Some(before) = turn.follows {
            below[before].push(at);
        }
    }
    below
}

struct TreeDrawing<'a> {
    tree: &'a ConversationTree,
    below: Vec<Vec<usize>>,
    room: usize,
    paint: bool,
    text: SafeText,
}

/// A turn that is to be drawn.
struct TreeDrawingStep {
    at: usize,
    /// Lines of the drawing to the left of the turn.
    before: String,
    depth: usize,
    /// For the first turn of a branch: lines of the drawing to the left of the fork.
    leaves: Option<String>,
}

impl TreeDrawing<'_> {
    /// Draws a turn and all turns that follow it. A branch may be as deep as a conversation is long, so this does not
    /// recurse.
    fn line(&mut self, first: usize) {
        let mut steps = vec![TreeDrawingStep { at: first, before: String::new(), depth: 0, leaves: None }];
        while let Some(TreeDrawingStep { at, before, depth, leaves }) = steps.pop() {
            if let Some(from) = leaves {
                let _ = writeln!(self.text, "{from}├─╮");
            }
            self.turn(at, &before);
            let mut next = std::mem::take(&mut self.below[at]);
            // The turn that a resume takes goes straight on; without one, the turn that was written last.
            let straight = next.iter().position(|at| self.tree.turns[*at].resumed);
            let straight = straight.or(next.len().checked_sub(1)).map(|place| next.remove(place));
            let inner = if depth < MAX_DEPTH { format!("{before}│ ") } else { before.clone() };
            let leave = |at: usize| TreeDrawingStep {
                at,
                before: inner.clone(),
                depth: depth + 1,
                leaves: Some(before.clone()),
            };
            // `steps` is a stack: the last one pushed is drawn next.
            steps.extend(straight.map(|at| TreeDrawingStep {
                at,
                before: before.clone(),
                depth,
                leaves: None,
            }));
            steps.extend(next.into_iter().rev().map(leave));
        }
    }

    fn turn(&mut self, at: usize, before: &str) {
        let turn = &self.tree.turns[at];
        let mark = if turn.resumed { "●" } else { "○" };
        let place = format!("{:>6}", turn.line);
        let said = match turn.begins {
            TurnOpening::Prompt => text_width::one_line(&turn.said),
            TurnOpening::Answer => format!("answer: {}", text_width::one_line(&turn.said)),
            TurnOpening::Compaction => "(compacted)".to_owned(),
            TurnOpening::Other => format!("({})", text_width::one_line(&turn.said)),
        };
        let end = if turn.is_end { "  ◀ a resume goes on here" } else { "" };
        let head = format!("{place}  {}  ", moment(turn.at_ms));
        let used = text_width::column_width(before)
            + 2
            + text_width::column_width(&head)
            + text_width::column_width(end);
        let said = text_width::cut_to_columns(&said, self.room.saturating_sub(used).max(12));
        let paint = if turn.resumed { TextStyle::Green } else { TextStyle::Yellow };
        self.text.push(before);
        self.text.push(SafeText::painted(paint, mark, self.paint) + " ");
        self.text.push(SafeText::painted(TextStyle::Dim, head, self.paint) + said);
        self.text.push(SafeText::painted(TextStyle::BoldCyan, end, self.paint) + "\n");
    }
}
