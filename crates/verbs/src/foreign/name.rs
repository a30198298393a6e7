//! A name for a session that was made of a conversation: from what it is called, or how it began.

use berth_core::Name;

/// How long a guessed name gets.
const MAX_BYTES: usize = 32;
/// How many words it takes.
const MAX_WORDS: usize = 6;
/// How many others of the same name there may be.
pub(super) const MOST_SAME: usize = 10_000;

/// A name from these words, with a number if it is not the first; from the id if there are no words to use.
pub(super) fn guess(agent: &str, id: &str, words: Option<&str>, number: usize) -> Option<Name> {
    let short: String = id.chars().take(8).collect();
    let slug = words.map(slug).filter(|slug| slug.len() >= 3).unwrap_or_else(|| format!("{agent}-{short}"));
    let text = if number < 2 { slug } else { format!("{slug}-{number}") };
    Name::parse(&text).ok()
}

fn slug(words: &str) -> String {
    let mut slug = String::new();
    for word in words
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(MAX_WORDS)
    {
        if slug.len() + 1 + word.len() > MAX_BYTES && !slug.is_empty() {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(word.chars().map(|letter| letter.to_ascii_lowercase()).take(MAX_BYTES));
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_guessed_from_how_a_conversation_began() {
        let long = "x".repeat(500);
        let guess =
            |words, number| guess("claude", "11111111-2222", words, number).expect("a name").to_string();
        assert_eq!(guess(Some("Mend the login page, please!"), 1), "mend-the-login-page-please");
        assert_eq!(guess(Some("Mend the login page, please!"), 3), "mend-the-login-page-please-3");
        assert_eq!(guess(Some("über größe"), 1), "ber-gr-e");
        for nothing in [None, Some("日本語"), Some("?"), Some("a")] {
            assert_eq!(guess(nothing, 1), "claude-11111111");
        }
        assert_eq!(guess(Some(&long), 1), "x".repeat(MAX_BYTES));
        assert_eq!(guess(Some("one two three four five six seven eight"), 1), "one-two-three-four-five-six");
    }
}
