//! Automatic session names: from the first words of the prompt, else from the directory.
//!
//! Promise: no secret that `redact` knows becomes part of a name, and an id is never a name.
//! Not here: making the name unique (see `berth_store::names`).
//! Start with [`suggest_name`].

use std::path::Path;

use berth_api::redact;
use berth_core::SafeName;

/// Limit for a chosen name, without the number that makes it unique.
const MAX_BYTES: usize = 32;
/// Limit for the words of a chosen name.
const MAX_WORDS: usize = 6;
/// Minimum length of a text that is worth using as a name.
const LEAST_BYTES: usize = 3;
/// Limit for the characters of a text that are examined.
const LOOKED_AT_CHARS: usize = 400;
/// Name of a session that has neither a usable prompt nor a directory with a name.
const NAMELESS: &str = "session";
/// Words between the name of a secret and the secret.
const BETWEEN: [&str; 2] = ["is", "to"];
/// Suffix for the name of a forked session.
const FORK: &str = "-fork";

/// A name from the first of these texts that has usable words, else from the directory.
pub fn suggest_name(texts: &[Option<&str>], cwd: &Path) -> SafeName {
    let words = texts.iter().flatten().map(|text| slug(text)).find(|slug| slug.len() >= LEAST_BYTES);
    let dir = || cwd.file_name().map(|name| slug(&name.to_string_lossy())).filter(|slug| !slug.is_empty());
    let name = words.or_else(dir).unwrap_or_else(|| NAMELESS.to_owned());
    SafeName::parse(&name).expect("letters, digits and dashes between them are a name")
}

/// A name for the fork of a session.
pub fn fork_name(name: &SafeName) -> SafeName {
    let stem = &name.as_str()[..name.as_str().len().min(SafeName::MAX_BYTES - FORK.len())];
    SafeName::parse(&format!("{stem}{FORK}")).expect("the beginning of a name and a word are a name")
}

fn slug(text: &str) -> String {
    let beginning: String = text.chars().take(LOOKED_AT_CHARS).collect();
    let plain: String = redact::redact_text(&beginning).chars().map(plain).collect();
    let mut slug = String::new();
    let mut follows_secret = false;
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words = words.filter(|word| {
        let is_value = std::mem::replace(&mut follows_secret, announces_secret(word));
        // In "the password is …" the value comes one word later.
        follows_secret |= is_value && BETWEEN.iter().any(|it| word.eq_ignore_ascii_case(it));
        !is_value || follows_secret
    });
    for word in words.take(MAX_WORDS) {
        if slug.len() + 1 + word.len() > MAX_BYTES && !slug.is_empty() {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(word.chars().map(|c| c.to_ascii_lowercase()).take(MAX_BYTES));
    }
    slug
}

/// True if the word after this one may be a secret.
fn announces_secret(word: &str) -> bool {
    ["password", "passphrase", "token", "secret", "key"].iter().any(|it| word.eq_ignore_ascii_case(it))
}

/// A letter without its accent; any other character unchanged.
fn plain(c: char) -> char {
    match c {
        'À'..='Å' | 'à'..='å' | 'Ā' | 'ā' | 'Ą' | 'ą' => 'a',
        'Ç' | 'ç' | 'Ć' | 'ć' | 'Č' | 'č' => 'c',
        'Ď' | 'ď' => 'd',
        'È'..='Ë' | 'è'..='ë' | 'Ē' | 'ē' | 'Ę' | 'ę' | 'Ě' | 'ě' => 'e',
        'Ğ' | 'ğ' => 'g',
        'Ì'..='Ï' | 'ì'..='ï' | 'Ī' | 'ī' | 'İ' | 'ı' => 'i',
        'Ł' | 'ł' => 'l',
        'Ñ' | 'ñ' | 'Ń' | 'ń' | 'Ň' | 'ň' => 'n',
        'Ò'..='Ö' | 'Ø' | 'ò'..='ö' | 'ø' | 'Ō' | 'ō' | 'Ő' | 'ő' => 'o',
        'Ř' | 'ř' => 'r',
        'ß' | 'Ś' | 'ś' | 'Ş' | 'ş' | 'Š' | 'š' => 's',
        'Ť' | 'ť' => 't',
        'Ù'..='Ü' | 'ù'..='ü' | 'Ū' | 'ū' | 'Ů' | 'ů' | 'Ű' | 'ű' => 'u',
        'Ý' | 'ý' | 'ÿ' => 'y',
        'Ź' | 'ź' | 'Ż' | 'ż' | 'Ž' | 'ž' => 'z',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_from_the_first_words_else_from_the_directory() {
        let of = |words: &str| suggest_name(&[Some(words)], Path::new("/src/My Project")).to_string();
        assert_eq!(of("Mend the login page, please!"), "mend-the-login-page-please");
        assert_eq!(of("Über größe"), "uber-grose");
        assert_eq!(of("one two three four five six seven eight"), "one-two-three-four-five-six");
        assert_eq!(of(&"x".repeat(500)), "x".repeat(MAX_BYTES));
        for nothing in ["日本語", "?", "a", ""] {
            assert_eq!(of(nothing), "my-project", "{nothing:?}");
        }
        assert_eq!(suggest_name(&[None, Some("second text")], Path::new("/")).as_str(), "second-text");
        assert_eq!(suggest_name(&[], Path::new("/")).as_str(), "session");
    }

    #[test]
    fn a_secret_in_a_prompt_is_not_in_the_name() {
        let name = suggest_name(&[Some("use API_KEY=hunter2secret now")], Path::new("/src"));
        assert!(!name.as_str().contains("hunter2"), "{name}");
        for (words, expected) in [
            ("the password is hunter2 now", "the-password-is-now"),
            ("log in with token hunter2", "log-in-with-token"),
            ("use the secret key: hunter2!", "use-the-secret-key"),
            ("Password hunter2", "password"),
        ] {
            assert_eq!(suggest_name(&[Some(words)], Path::new("/src")).as_str(), expected, "{words}");
        }
    }

    #[test]
    fn a_copy_is_named_after_its_session() {
        let name = |text: &str| SafeName::parse(text).expect("a name");
        assert_eq!(fork_name(&name("fix")).as_str(), "fix-fork");
        assert_eq!(fork_name(&name(&"n".repeat(64))).as_str().len(), 64);
    }
}
