//! Secrets of tokens: their form, and their hashes.
//!
//! Promise: a secret has 256 random bits; one that was mistyped or cut off is detected without any look-up; only its
//! SHA-256 is on disk, which cannot be inverted.
//! Not here: the rights of a secret's holder (see `record`).
//! Start with [`TokenSecret::mint`].

use std::fmt;
use std::io;

use berth_api::TokenKind;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Letters and digits: a double click selects the whole secret, and no shell and no address needs it quoted.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 62^43 is more than 2^256.
const RANDOM_CHARS: usize = 43;
/// 62^6 is more than 2^32.
const SUM_CHARS: usize = 6;

/// A secret. Only [`TokenSecret::text`] shows it.
#[derive(Clone)]
pub struct TokenSecret {
    text: String,
    hash: SecretHash,
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Prefix of a secret of this kind, by which scanners and people recognise it.
fn prefix(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Token => "berth_",
        TokenKind::Login => "berthlogin_",
        TokenKind::Link => "berthlink_",
    }
}

impl TokenSecret {
    /// Makes a random secret.
    pub fn mint(kind: TokenKind) -> io::Result<Self> {
        let mut text = prefix(kind).to_owned();
        let end = text.len() + RANDOM_CHARS;
        let mut bytes = [0; 64];
        while text.len() < end {
            berth_host::random_bytes(&mut bytes)?;
            // Bytes that would make some letters likelier than others are skipped.
            let fair = bytes.iter().filter(|byte| **byte < 248);
            let letters = fair.map(|byte| char::from(ALPHABET[usize::from(byte % 62)]));
            text.extend(letters.take(end - text.len()));
        }
        text.push_str(&check_sum(&text));
        Ok(Self::of(text))
    }

    fn of(text: String) -> Self {
        let hash = SecretHash(Sha256::digest(text.as_bytes()).into());
        Self { text, hash }
    }

    /// Parses a secret of this kind. `None` for a text that never was one: another form, or a wrong checksum.
    pub fn parse(kind: TokenKind, text: &str) -> Option<Self> {
        let rest = text.strip_prefix(prefix(kind))?;
        let fits =
            rest.len() == RANDOM_CHARS + SUM_CHARS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !fits {
            return None;
        }
        let (secret, sum) = text.split_at(text.len() - SUM_CHARS);
        (check_sum(secret) == sum).then(|| Self::of(text.to_owned()))
    }

    /// The secret itself.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The hash that is stored. A plain SHA-256 is right here: slow hashes make up for passwords that can be guessed,
    /// and 256 random bits cannot be guessed.
    pub(crate) fn hash(&self) -> SecretHash {
        self.hash
    }
}

fn check_sum(text: &str) -> String {
    let mut rest = crc32c::crc32c(text.as_bytes()) as usize;
    let mut digits = [0; SUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[rest % 62];
        rest /= 62;
    }
    digits.map(char::from).iter().collect()
}

/// The SHA-256 of a secret. Compared in constant time, always.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretHash([u8; 32]);

impl SecretHash {
    /// Length of an id.
    pub(crate) const ID_CHARS: usize = 12;

    /// The public id of the secret: the beginning of its hash. The id reveals 48 bits of a hash of 256 random bits,
    /// which is harmless; and a record is found by its secret without reading the others.
    pub(crate) fn id(&self) -> String {
        hex(&self.0[..Self::ID_CHARS / 2])
    }

    pub(crate) fn hex(&self) -> String {
        hex(&self.0)
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// True if both hashes are equal, in a time that does not depend on where they differ.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reads_back_and_is_of_one_kind_only() {
        for kind in TokenKind::ALL {
            let secret = TokenSecret::mint(kind).expect("random bytes");
            for other in TokenKind::ALL {
                assert_eq!(TokenSecret::parse(other, secret.text()).is_some(), other == kind);
            }
            assert_eq!(secret.text().len(), prefix(kind).len() + 49);
        }
    }

    #[test]
    fn a_secret_with_any_one_character_changed_or_missing_is_known_to_be_mistyped() {
        let secret = TokenSecret::mint(TokenKind::Token).expect("random bytes");
        let text = secret.text();
        for at in 0..text.len() {
            let mut wrong = text.as_bytes().to_vec();
            wrong[at] = if wrong[at] == b'x' { b'y' } else { b'x' };
            let wrong = String::from_utf8(wrong).expect("letters");
            assert!(TokenSecret::parse(TokenKind::Token, &wrong).is_none(), "{at}");
            let shorter = format!("{}{}", &text[..at], &text[at + 1..]);
            assert!(TokenSecret::parse(TokenKind::Token, &shorter).is_none(), "{at}");
        }
        for odd in ["", "berth_", "berth_\u{e9}", &"berth_".repeat(100_000)] {
            assert!(TokenSecret::parse(TokenKind::Token, odd).is_none());
        }
    }

    #[test]
    fn a_secret_is_not_printed_by_accident() {
        let secret = TokenSecret::mint(TokenKind::Token).expect("random bytes");
        assert!(!format!("{secret:?}").contains(&secret.text()[6..]));
    }

    #[test]
    fn a_hash_reads_back_and_only_the_same_is_the_same() {
        let hash = |text: &str| SecretHash(Sha256::digest(text.as_bytes()).into());
        let one = hash("one");
        assert!(SecretHash::from_hex(&one.hex()).is_some_and(|back| back.is(&one)));
        assert!(!one.is(&hash("two")));
        assert_eq!(one.hex(), "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
        assert_eq!(one.id(), "7692c3ad3540");
        assert!(SecretHash::from_hex("zz").is_none() && SecretHash::from_hex(&"é".repeat(32)).is_none());
    }
}
