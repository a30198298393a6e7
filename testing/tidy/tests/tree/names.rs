//! Names of types: a name says what the type is without its module, and means one thing.
//!
//! Promise: the shares may only fall. Lower a limit when the tree has become better than it.

use std::collections::BTreeMap;

use berth_tidy::{SourceFile, rust_files};

/// The most types of a hundred whose name is one word.
const MOST_ONE_WORD_PERCENT: usize = 4;
/// The most types of a hundred whose name is defined three times or more.
const MOST_SHARED_PERCENT: usize = 4;
/// How many definitions make a shared name.
const SHARED_FROM: usize = 3;

fn has_one_word(name: &str) -> bool {
    !name.chars().skip(1).any(|letter| letter.is_ascii_uppercase())
}

#[test]
fn few_types_have_a_name_of_one_word_or_share_it_with_two_others() {
    let files = rust_files();
    let names: Vec<&str> = files.iter().flat_map(SourceFile::type_names).collect();
    let mut counts = BTreeMap::<&str, usize>::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let is_within = |count: usize, percent: usize| count * 100 <= percent * names.len();

    let one_word = names.iter().filter(|name| has_one_word(name)).count();
    let shared: Vec<_> = counts.iter().filter(|(_, count)| **count >= SHARED_FROM).collect();
    let sharing: usize = shared.iter().map(|(_, count)| **count).sum();
    println!("{} types; {one_word} have one word; {sharing} share their name with two others", names.len());
    assert!(is_within(one_word, MOST_ONE_WORD_PERCENT), "{one_word} of {} types have one word", names.len());
    assert!(is_within(sharing, MOST_SHARED_PERCENT), "names defined three times or more: {shared:?}");
}
