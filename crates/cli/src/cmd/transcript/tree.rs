//! `berth transcript tree`: the branches of a conversation, drawn.
//!
//! The path that a resume takes is a line from top to bottom; what it leaves behind hangs beside it.

use std::fmt::Write;

use berth_api::{Code, Problem};
use berth_verbs::records;
use berth_verbs::records::tree::{Begins, Tree};

use super::moment;
use crate::args::TranscriptTree;
use crate::ctx::Ctx;
use crate::progress::Later;
use crate::visible::{Paint, Visible};
use crate::{print, tty, width};

/// Width when nobody says, as in a pipe.
const USUAL_WIDTH: usize = 100;
/// Branches of branches are not drawn further to the right than this.
const MAX_DEPTH: usize = 12;

pub(super) fn run(ctx: &Ctx, args: &TranscriptTree) -> Result<u8, Problem> {
    let path = records::one_meant(ctx, &args.file)?;
    let progress = Later::new("reading (MiB)");
    let tree = records::tree_of(&path, &progress)?;
    drop(progress);
    if args.json {
        print::json(&tree)?;
        return Ok(0);
    }
    if tree.turns.is_empty() {
        return Err(Problem::new(Code::Refused, format!("nothing was said in {}", path.display()))
            .hint("`berth transcript check` says what is in it"));
    }
    let room = tty::size().map_or(USUAL_WIDTH, |size| usize::from(size.cols));
    let paint = tty::wants_colour();
    let mut drawing = Drawing { tree: &tree, below: below(&tree), room, paint, text: Visible::default() };
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
        print::note("a resume takes up what is marked ●; the rest (○) it leaves behind");
    }
    Ok(0)
}

/// What follows each turn.
fn below(tree: &Tree) -> Vec<Vec<usize>> {
    let mut below = vec![Vec::new(); tree.turns.len()];
    for (at, turn) in tree.turns.iter().enumerate() {
        if let Some(before) = turn.follows {
            below[before].push(at);
        }
    }
    below
}

struct Drawing<'a> {
    tree: &'a Tree,
    below: Vec<Vec<usize>>,
    room: usize,
    paint: bool,
    text: Visible,
}

/// A turn that is to be drawn.
struct Step {
    at: usize,
    /// What is to the left of it.
    before: String,
    depth: usize,
    /// What is to the left of where it leaves another line.
    leaves: Option<String>,
}

impl Drawing<'_> {
    /// A turn and all that follows it. Branches may be as deep as a conversation is long: nothing is called for each.
    fn line(&mut self, first: usize) {
        let mut steps = vec![Step { at: first, before: String::new(), depth: 0, leaves: None }];
        while let Some(Step { at, before, depth, leaves }) = steps.pop() {
            if let Some(from) = leaves {
                let _ = writeln!(self.text, "{from}├─╮");
            }
            self.turn(at, &before);
            let mut next = std::mem::take(&mut self.below[at]);
            // What a resume takes goes straight on; else what was written last.
            let straight = next.iter().position(|at| self.tree.turns[*at].resumed);
            let straight = straight.or(next.len().checked_sub(1)).map(|place| next.remove(place));
            let inner = if depth < MAX_DEPTH { format!("{before}│ ") } else { before.clone() };
            let leave = |at: usize| Step {
                at,
                before: inner.clone(),
                depth: depth + 1,
                leaves: Some(before.clone()),
            };
            // The last one put here is the next one drawn.
            steps.extend(straight.map(|at| Step { at, before: before.clone(), depth, leaves: None }));
            steps.extend(next.into_iter().rev().map(leave));
        }
    }

    fn turn(&mut self, at: usize, before: &str) {
        let turn = &self.tree.turns[at];
        let mark = if turn.resumed { "●" } else { "○" };
        let place = format!("{:>6}", turn.line);
        let said = match turn.begins {
            Begins::Prompt => width::one_line(&turn.said),
            Begins::Answer => format!("answer: {}", width::one_line(&turn.said)),
            Begins::Compaction => "(compacted)".to_owned(),
            Begins::Other => format!("({})", width::one_line(&turn.said)),
        };
        let end = if turn.is_end { "  ◀ a resume goes on here" } else { "" };
        let head = format!("{place}  {}  ", moment(turn.at_ms));
        let used = width::width(before) + 2 + width::width(&head) + width::width(end);
        let said = width::cut(&said, self.room.saturating_sub(used).max(12));
        let paint = if turn.resumed { Paint::Green } else { Paint::Yellow };
        self.text.push(before);
        self.text.push(Visible::painted(paint, mark, self.paint) + " ");
        self.text.push(Visible::painted(Paint::Dim, head, self.paint) + said);
        self.text.push(Visible::painted(Paint::BoldCyan, end, self.paint) + "\n");
    }
}
