//! The terminal that this process is used from.
//!
//! Promise: a process of a session has no terminal here, even if its standard input is one: it must not take over the
//! terminal of the user it works for.
//! Not here: the records of terminals (see `berth_store::current_session`).
//! Start with [`own_terminal`].

use std::os::unix::ffi::{OsStrExt, OsStringExt};

use berth_host::identity::{self, ProcessIdentity};
use berth_store::{StateDir, TerminalIdentity};
use rustix::process::{getpgrp, getsid, getuid};
use rustix::stdio::stdin;
use rustix::termios::{isatty, tcgetpgrp, tcgetsid, ttyname};

use crate::attribution::MARK;
use crate::nested_sessions;

/// The recorded length of a variable. Two panes never differ only beyond that.
const MAX_VARIABLE_BYTES: usize = 512;
/// A process with one of these variables belongs to a session or helper.
const OF_A_RUN: [&str; 3] = ["BERTH_SESSION", "BERTH_HELPER", MARK];

/// The terminal this process is used from. `None` unless standard input is our controlling terminal, since otherwise
/// no user sits there. `None` as well inside a session.
pub fn own_terminal() -> Option<TerminalIdentity> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        let bytes = value.as_bytes();
        Some(String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_VARIABLE_BYTES)]).into_owned())
    };
    if !isatty(stdin()) || OF_A_RUN.iter().any(|name| variable(name).is_some()) {
        return None;
    }
    // The kernel answers only for our controlling terminal.
    let leader = tcgetsid(stdin()).ok().filter(|leader| getsid(None) == Ok(*leader))?;
    if is_below_a_keeper() {
        return None;
    }
    let tty = ttyname(stdin(), Vec::new()).ok()?.into_bytes();
    let leader = ProcessIdentity::of(u32::try_from(leader.as_raw_nonzero().get()).ok()?).ok()?;
    Some(TerminalIdentity {
        tty: std::ffi::OsString::from_vec(tty).into(),
        leader,
        pane: pane(variable),
        ssh: variable("SSH_CONNECTION"),
        uid: getuid().as_raw(),
    })
}

/// True if the user at the terminal waits for this process. A background job reads the current session, but does not
/// change it under the user's hands.
pub fn is_foreground_process() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|front| front == getpgrp())
}

/// The pane of tmux (with its server, not the tmux session: panes move) and of zellij. One may run in the other.
fn pane(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let tmux = variable("TMUX").zip(variable("TMUX_PANE")).map(|(tmux, pane)| {
        let server = tmux.rsplit_once(',').map_or(tmux.as_str(), |(server, _)| server);
        format!("tmux {server} {pane}")
    });
    let zellij = variable("ZELLIJ_SESSION_NAME")
        .zip(variable("ZELLIJ_PANE_ID"))
        .map(|(session, pane)| format!("zellij {session} {pane}"));
    let panes: Vec<String> = tmux.into_iter().chain(zellij).collect();
    (!panes.is_empty()).then(|| panes.join("; "))
}

/// True if a keeper of this state directory is above us. A tool that an agent starts without its variables is still
/// the agent's; below keepers of another state directory berth runs only during its own development.
fn is_below_a_keeper() -> bool {
    let me = identity::process_stat(std::process::id()).ok();
    let Some(session) = me.and_then(|me| nested_sessions::keeper_above(&me)) else { return false };
    let root = session.root().canonicalize().ok();
    let here = StateDir::place().ok().and_then(|root| root.canonicalize().ok());
    root.is_some() && root == here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_are_told_apart_by_server_and_pane_and_not_by_the_session_they_are_shown_in() {
        let env = |list: &'static [(&str, &str)]| {
            pane(move |name| list.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let tmux = env(&[("TMUX", "/tmp/tmux-0/default,77,0"), ("TMUX_PANE", "%3")]);
        assert_eq!(tmux.as_deref(), Some("tmux /tmp/tmux-0/default,77 %3"));
        assert_eq!(env(&[("TMUX", "/tmp/tmux-0/default,77,5"), ("TMUX_PANE", "%3")]), tmux);
        let zellij = env(&[("ZELLIJ_SESSION_NAME", "work"), ("ZELLIJ_PANE_ID", "2")]);
        assert_eq!(zellij.as_deref(), Some("zellij work 2"));
        let both = env(&[
            ("TMUX", "/t,1,0"),
            ("TMUX_PANE", "%1"),
            ("ZELLIJ_SESSION_NAME", "w"),
            ("ZELLIJ_PANE_ID", "2"),
        ]);
        assert_eq!(both.as_deref(), Some("tmux /t,1 %1; zellij w 2"));
        assert_eq!(env(&[]), None);
    }
}
