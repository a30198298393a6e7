//! Comments: the subject of a sentence is a noun, and a comment says more than the name below it.

use berth_tidy::{CommentBlock, rust_files};

/// Words that no comment may begin with: a stranger cannot tell what they stand for.
const NO_SUBJECTS: [&str; 8] = ["Who", "Whoever", "Somebody", "Nobody", "What", "It", "Which", "Whose"];
/// Words without a meaning of their own, in a comment that repeats a name.
const FILLERS: [&str; 8] = ["a", "an", "the", "its", "their", "of", "this", "one"];
/// A comment of more words than this says something.
const MOST_WORDS_OF_A_REPEAT: usize = 3;

fn first_word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default()
}

/// True if every word of the comment is part of the name below it, or a filler.
fn repeats_the_name(block: &CommentBlock) -> bool {
    let words: Vec<String> = block.text.split_whitespace().map(plain).collect();
    if !block.is_item_doc || words.is_empty() || words.len() > MOST_WORDS_OF_A_REPEAT {
        return false;
    }
    let item = block.item.split(['(', ':', '=', '{', '<']).next().unwrap_or_default().to_lowercase();
    words.iter().all(|word| FILLERS.contains(&word.as_str()) || item.contains(word.as_str()))
}

fn plain(word: &str) -> String {
    word.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>().to_lowercase()
}

/// Places of the comments for which this is true.
fn places(is_wrong: impl Fn(&CommentBlock) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in rust_files() {
        let wrong = file.comments().into_iter().filter(|block| is_wrong(block));
        found.extend(wrong.map(|block| format!("{}:{}: {}", file.path.display(), block.line, block.text)));
    }
    found
}

#[test]
fn a_comment_begins_with_a_noun_and_not_with_a_pronoun() {
    let found =
        places(|block| NO_SUBJECTS.contains(&first_word(&block.text)) || block.text.starts_with("The same "));
    assert!(found.is_empty(), "name the subject (docs/style.md):\n{}", found.join("\n"));
}

#[test]
fn no_comment_says_whoever() {
    let found = places(|block| block.text.split_whitespace().map(plain).any(|word| word == "whoever"));
    assert!(found.is_empty(), "say client, caller, process, user (docs/style.md):\n{}", found.join("\n"));
}

#[test]
fn no_doc_comment_only_repeats_the_name_of_its_item() {
    let found = places(repeats_the_name);
    assert!(found.is_empty(), "say more than the name, or delete it (docs/style.md):\n{}", found.join("\n"));
}
