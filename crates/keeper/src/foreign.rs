//! Sessions that were started inside this one. They are below us in the process tree, and not ours.
//!
//! Promise: a keeper that its own lease proves to be the keeper of another session, and everything
//! below it, is neither signalled nor waited for. Who merely looks like one is ours.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use berth_host::identity::Identity;
use berth_host::tree;

use crate::start::{ADOPT_FLAG, KEEPER_VERB};
use crate::store;

/// What is below process `me`, in two parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Below {
    /// Of this session.
    pub(crate) ours: Vec<u32>,
    /// Keepers of other sessions, and what is below them.
    pub(crate) others: Vec<u32>,
}

/// Looks at what is below process `me` now.
pub(crate) fn below(me: u32) -> io::Result<Below> {
    let all = tree::descendants(me)?;
    let mut others: Vec<u32> = Vec::new();
    for pid in all.iter().copied().filter(|pid| is_other_keeper(*pid)) {
        others.push(pid);
        others.extend(tree::descendants(pid)?);
    }
    Ok(Below { ours: all.into_iter().filter(|pid| !others.contains(pid)).collect(), others })
}

/// Whether nothing of ours is below process `me` any more, while something of others is.
///
/// Two looks, because one pass over /proc can miss a process whose parent ends during it.
pub(crate) fn only_others_are_below(me: u32) -> bool {
    let only_others = || below(me).is_ok_and(|below| below.ours.is_empty() && !below.others.is_empty());
    only_others() && only_others()
}

fn is_other_keeper(pid: u32) -> bool {
    let Some(dir) = fs::read(format!("/proc/{pid}/cmdline")).ok().and_then(|line| session_dir(&line)) else {
        return false;
    };
    let signed = |identity: Identity| {
        fs::read(dir.join("lease")).is_ok_and(|text| text.starts_with(store::signature(&identity).as_bytes()))
    };
    Identity::of(pid).is_ok_and(signed)
}

/// The session's directory a keeper's command line names.
fn session_dir(line: &[u8]) -> Option<PathBuf> {
    let words: Vec<&str> =
        line.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
    match words.as_slice() {
        ["berth", verb, flag, dir, ..] if *verb == KEEPER_VERB && *flag == ADOPT_FLAG => Some(dir.into()),
        ["berth", verb, home, id, ..] if *verb == KEEPER_VERB => {
            Some(Path::new(home).join("sessions").join(id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_says_on_its_command_line_which_session_it_keeps() {
        assert_eq!(session_dir(b"berth\0keeper\0/h\0abc\0"), Some("/h/sessions/abc".into()));
        assert_eq!(
            session_dir(b"berth\0keeper\0--adopt\0/h/sessions/abc\x003\x004\0"),
            Some("/h/sessions/abc".into())
        );
        assert_eq!(session_dir(b"berth\0attach\0abc\0"), None);
        assert_eq!(session_dir(b"sh\0-c\0berth keeper /h abc\0"), None);
    }

    #[test]
    fn a_process_that_only_looks_like_a_keeper_is_ours() {
        assert!(!is_other_keeper(std::process::id()));
    }
}
