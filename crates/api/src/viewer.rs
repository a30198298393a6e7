//! How much of a session a caller may see.
//!
//! Promise: below the scope `control` the secrets of command lines are masked, and a caller with a list of sessions is
//! told of no others. The types that have something to hide each have one method for it, `hide_from`.
//! Not here: which sessions a caller may ask about (see the gateway), what counts as a secret (see [`redact`]).
//! Start with [`Viewer`].

use std::collections::BTreeSet;

use berth_core::SessionId;

use crate::record::Event;
use crate::{Code, Problem, Scope, Status, redact};

/// A caller, as far as that decides what it sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Viewer {
    /// How far the caller may go.
    pub scope: Scope,
    /// The only sessions there are for the caller; all if there is no list.
    pub sessions: Option<BTreeSet<SessionId>>,
}

impl Viewer {
    /// The caller that sees least.
    pub const LEAST: Self = Self { scope: Scope::Read, sessions: Some(BTreeSet::new()) };

    /// Whether nothing is hidden from the caller.
    pub fn sees_all(&self) -> bool {
        self.scope >= Scope::Control && self.sessions.is_none()
    }

    /// Whether there is such a session, as far as the caller may know.
    pub fn may_see(&self, id: &SessionId) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(id))
    }

    /// Masks the secrets of a command line, if the caller is below `control`.
    pub fn mask(&self, command: &mut Vec<String>) {
        if self.scope < Scope::Control {
            *command = redact::words(command);
        }
    }

    fn hide_parent(&self, parent: &mut Option<String>) {
        let may_see = |id: &str| SessionId::parse(id).is_some_and(|id| self.may_see(&id));
        if self.sessions.is_some() && !parent.as_deref().is_some_and(may_see) {
            *parent = None;
        }
    }
}

impl Status {
    /// Takes out what the caller may not see.
    pub fn hide_from(&mut self, viewer: &Viewer) {
        viewer.mask(&mut self.what.command);
        viewer.hide_parent(&mut self.what.parent);
    }
}

impl Event {
    /// Takes out what the caller may not see.
    pub fn hide_from(&mut self, viewer: &Viewer) {
        if let Self::Created { spec, .. } | Self::Respecified { spec } = self {
            viewer.mask(&mut spec.command);
            viewer.mask(&mut spec.again);
            if let Some(other) = &mut spec.other {
                viewer.mask(&mut other.command);
                viewer.mask(&mut other.again);
            }
            viewer.hide_parent(&mut spec.parent);
        }
    }
}

impl Problem {
    /// Takes out the name of a session that writes a conversation, if the caller may not see that session. Other problems
    /// repeat the words of the request, and other words for what is there would tell that it is there.
    pub fn hide_from(&mut self, viewer: &Viewer) {
        let names_another = |text: &str| {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
            words.filter_map(SessionId::parse).any(|id| !viewer.may_see(&id))
        };
        if self.code == Code::InUse
            && (names_another(&self.what) || self.hint.as_deref().is_some_and(names_another))
        {
            self.what = "a session that the token does not include is in the way".to_owned();
            self.hint = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{InterfaceLaunch, Spec};

    const MINE: &str = "0123456789ab";
    const OTHER: &str = "mj277ycbmc9g";

    fn viewer(scope: Scope, sessions: Option<&str>) -> Viewer {
        Viewer { scope, sessions: sessions.map(|id| SessionId::parse(id).into_iter().collect()) }
    }

    fn words(secret: &str) -> Vec<String> {
        ["x", "--token", secret].map(str::to_owned).to_vec()
    }

    #[test]
    fn every_command_line_of_an_event_is_masked_below_control_and_only_there() {
        let launch = |secret: &str| InterfaceLaunch {
            command: words(secret),
            again: words(secret),
            ..InterfaceLaunch::default()
        };
        let spec = |secret: &str| Event::Respecified {
            spec: Spec {
                command: words(secret),
                again: words(secret),
                other: Some(launch(secret)),
                ..Spec::default()
            },
        };
        for (scope, shown) in [
            (Scope::Read, "***"),
            (Scope::Send, "***"),
            (Scope::Control, "hunter2"),
            (Scope::Admin, "hunter2"),
        ] {
            let mut event = spec("hunter2");
            event.hide_from(&viewer(scope, None));
            assert_eq!(event, spec(shown), "{scope}");
        }
    }

    #[test]
    fn a_parent_is_shown_to_callers_whose_list_has_it_and_to_those_without_a_list() {
        for (sessions, shown) in [(None, true), (Some(OTHER), true), (Some(MINE), false)] {
            let mut status = Status::default();
            status.what.parent = Some(OTHER.to_owned());
            status.hide_from(&viewer(Scope::Admin, sessions));
            assert_eq!(status.what.parent.is_some(), shown, "{sessions:?}");
        }
    }

    #[test]
    fn a_problem_names_no_session_that_is_not_in_the_list() {
        for (code, named, shown) in
            [(Code::InUse, OTHER, false), (Code::InUse, MINE, true), (Code::Refused, OTHER, true)]
        {
            let mut problem = Problem::new(code, format!("session {named} writes it")).hint("stop it");
            let before = problem.clone();
            problem.hide_from(&viewer(Scope::Admin, Some(MINE)));
            assert_eq!(problem == before, shown, "{problem:?}");
        }
    }
}
