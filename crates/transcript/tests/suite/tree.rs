//! Tests of the turns of a conversation, and of the ones that a resume has.

use std::fs;

use berth_transcript::tree::{ConversationTree, TurnOpening, tree};

use crate::common::talk::{answer, lines, prompt};
use crate::common::{TranscriptTestHome, real};

fn read(bytes: &[u8]) -> ConversationTree {
    let home = TranscriptTestHome::new();
    let path = home.0.join("talk.jsonl");
    fs::write(&path, bytes).unwrap();
    tree(&path, &mut |_| {}).unwrap()
}

/// A line for each turn: its line, the turn before, its first record, and whether a resume has it and goes on there.
fn drawn(tree: &ConversationTree) -> Vec<String> {
    let line = |turn: &berth_transcript::tree::TreeTurn| {
        let follows = turn.follows.map_or("-".to_owned(), |at| tree.turns[at].line.to_string());
        let begins = match turn.begins {
            TurnOpening::Prompt => "",
            TurnOpening::Answer => "answer: ",
            TurnOpening::Compaction => "compaction: ",
            TurnOpening::Other => "other: ",
        };
        let words: Vec<&str> = turn.said.split(' ').take(3).collect();
        let (had, end) = (if turn.resumed { "●" } else { "○" }, if turn.is_end { " ◀" } else { "" });
        format!("{had} {} after {follows} {begins}{}{end}", turn.line, words.join(" "))
    };
    tree.turns.iter().map(line).collect()
}

#[test]
fn a_simultaneous_writers_turn_is_beside_the_path_of_a_resume() {
    let tree = read(&real("claude", "two-writers"));
    assert_eq!((tree.agent, tree.more_turns), ("claude", 0));
    assert_eq!(
        drawn(&tree),
        [
            "● 3 after - base words",
            "● 19 after 3 A words SLOW",
            "○ 23 after 19 B words",
            "● 27 after 19 answer: tick 1 tick ◀"
        ]
    );
}

#[test]
fn a_thread_of_codex_is_one_line() {
    let tree = read(&real("codex", "steered"));
    assert_eq!(tree.agent, "codex");
    assert!(tree.turns.iter().all(|turn| turn.resumed && turn.begins == TurnOpening::Prompt), "{tree:#?}");
    assert!(tree.turns.len() > 1 && tree.turns.last().unwrap().is_end, "{tree:#?}");
    let follows: Vec<_> = tree.turns.iter().map(|turn| turn.follows).collect();
    assert_eq!(follows, (0..tree.turns.len()).map(|at| at.checked_sub(1)).collect::<Vec<_>>());
}

#[test]
fn a_branch_from_which_a_user_went_back_is_not_on_the_path() {
    let tree = read(&lines(&[
        prompt(1, 0, "A"),
        answer(2, 1, "a"),
        prompt(3, 2, "B"),
        answer(4, 3, "b"),
        prompt(5, 2, "C"),
        answer(6, 5, "c"),
    ]));
    assert_eq!(drawn(&tree), ["● 1 after - A", "○ 3 after 1 B", "● 5 after 1 C ◀"]);
    assert_eq!(
        tree.turns.iter().map(|turn| (turn.records, turn.last_line)).collect::<Vec<_>>(),
        [(2, 2), (2, 4), (2, 6)]
    );
}
