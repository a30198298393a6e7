//! Ids of our messages to Claude Code.
//!
//! A user message may carry a UUID that its sender chose. Claude Code names it in everything that belongs to the turn,
//! which shows the prompt that an answer belongs to.
//! Claude Code also keeps the ids in its transcript. A message whose id is there already counts as a repetition and is
//! not run, even after a resume and without an error. So an id has to consist of more than the turn's number: two
//! sessions of ours may write one conversation one after the other, and both have a turn 1.
//! Promise: the id follows from session and turn; the turn follows from the id.
//! Start with [`MessageIds`].

/// Makes and recognises ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MessageIds {
    /// Hash that tells this session's messages from those of others.
    mark: u64,
}

/// The free part of a UUID's last 64 bits: the rest gives its version.
const TURN_BITS: u64 = (1 << 62) - 1;

impl MessageIds {
    /// The ids for one session of ours.
    pub(super) fn of(session: &str) -> Self {
        // FNV-1a: unlike the hashers of the standard library it never changes. It needs no protection from attacks:
        // session ids are ours.
        let mark = session.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |mark, byte| {
            (mark ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { mark }
    }

    /// The id of a turn's message: a UUID of version 8, which is for custom formats.
    pub(super) fn message(self, turn: u64) -> String {
        let (mark, turn) = (self.mark, turn & TURN_BITS);
        format!(
            "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
            mark >> 32,
            (mark >> 16) & 0xffff,
            mark & 0xfff,
            0x8000 | (turn >> 48),
            turn & 0xffff_ffff_ffff,
        )
    }

    /// The turn whose message has this id, if it is of this session.
    pub(super) fn turn(self, message: &str) -> Option<u64> {
        let (_, last) = message.split_at_checked(19)?;
        let turn = u64::from_str_radix(&last.replace('-', ""), 16).ok()? & TURN_BITS;
        (self.message(turn) == message).then_some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::{MessageIds, TURN_BITS};
    use proptest::prelude::*;

    #[test]
    fn an_id_is_a_uuid_of_version_8() {
        assert_eq!(MessageIds::of("").message(3), "cbf29ce4-8422-8325-8000-000000000003");
    }

    proptest! {
        #[test]
        fn a_turn_is_found_again_in_its_own_session_only(session: String, other: String, turn in 0..=TURN_BITS) {
            let id = MessageIds::of(&session).message(turn);
            prop_assert_eq!(MessageIds::of(&session).turn(&id), Some(turn));
            prop_assert!(session == other || MessageIds::of(&other).turn(&id).is_none());
        }

        #[test]
        fn a_foreign_id_belongs_to_no_turn(id: String) {
            prop_assert_eq!(MessageIds::of("mine").turn(&id), None);
        }
    }
}
