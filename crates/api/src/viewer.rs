//! How much of a session a caller may see.
//!
//! Promise: below the scope `control` the secrets of command lines are redacted, and a caller with a list of sessions
//! learns of no others. Each type with something to hide has one method for it, `hide_from`.
//! Not here: which sessions a caller may ask about (see the gateway), and which texts count as secrets (see
//! [`redact`]).
//! Start with [`ViewerRights`].

use std::collections::BTreeSet;

use berth_core::SessionId;

use crate::record::Event;
use crate::{AccessScope, Problem, ProblemCode, SessionStatus, redact};

/// Rights of a caller, as far as they decide which data it sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewerRights {
    /// Scope of the caller.
    pub scope: AccessScope,
    /// Sessions that the caller may know of; `None` for all.
    pub sessions: Option<BTreeSet<SessionId>>,
}

impl ViewerRights {
    /// The caller with the fewest rights.
    pub const LEAST: Self = Self { scope: AccessScope::Read, sessions: Some(BTreeSet::new()) };

    /// True if nothing is hidden from the caller.
    pub fn sees_all(&self) -> bool {
        self.scope >= AccessScope::Control && self.sessions.is_none()
    }

    /// True if the caller may know of this session.
    pub fn may_see(&self, id: &SessionId) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(id))
    }

    /// Redacts the secrets of a command line, if the caller is below `control`.
    pub fn mask(&self, command: &mut Vec<String>) {
        if self.scope < AccessScope::Control {
            *command = redact::redact_words(command);
        }
    }

    fn hide_parent(&self, parent: &mut Option<String>) {
        let may_see = |id: &str| SessionId::parse(id).is_some_and(|id| self.may_see(&id));
        if self.sessions.is_some() && !parent.as_deref().is_some_and(may_see) {
            *parent = None;
        }
    }
}

impl SessionStatus {
    /// Removes the data that the caller may not see.
    pub fn hide_from(&mut self, viewer: &ViewerRights) {
        viewer.mask(&mut self.what.command);
        viewer.hide_parent(&mut self.what.parent);
    }
}

impl Event {
    /// Removes the data that the caller may not see.
    pub fn hide_from(&mut self, viewer: &ViewerRights) {
        if let Self::Created { spec, .. } | Self::CommandChanged { spec } = self {
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
    /// Removes the name of a session that writes a conversation, if the caller may not see that session. Other
    /// problems only repeat the request; changing their text would reveal that the session exists.
    pub fn hide_from(&mut self, viewer: &ViewerRights) {
        let names_another = |text: &str| {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
            words.filter_map(SessionId::parse).any(|id| !viewer.may_see(&id))
        };
        if self.code == ProblemCode::InUse
            && (names_another(&self.what) || self.hint.as_deref().is_some_and(names_another))
        {
            self.what = "another session, which this token may not see, prevents this".to_owned();
            self.hint = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{InterfaceLaunch, SessionSpec};

    const MINE: &str = "0123456789ab";
    const OTHER: &str = "mj277ycbmc9g";

    fn viewer(scope: AccessScope, sessions: Option<&str>) -> ViewerRights {
        ViewerRights { scope, sessions: sessions.map(|id| SessionId::parse(id).into_iter().collect()) }
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
        let spec = |secret: &str| Event::CommandChanged {
            spec: SessionSpec {
                command: words(secret),
                again: words(secret),
                other: Some(launch(secret)),
                ..SessionSpec::default()
            },
        };
        for (scope, shown) in [
            (AccessScope::Read, "***"),
            (AccessScope::Send, "***"),
            (AccessScope::Control, "hunter2"),
            (AccessScope::Admin, "hunter2"),
        ] {
            let mut event = spec("hunter2");
            event.hide_from(&viewer(scope, None));
            assert_eq!(event, spec(shown), "{scope}");
        }
    }

    #[test]
    fn a_parent_is_shown_to_callers_whose_list_has_it_and_to_those_without_a_list() {
        for (sessions, shown) in [(None, true), (Some(OTHER), true), (Some(MINE), false)] {
            let mut status = SessionStatus::default();
            status.what.parent = Some(OTHER.to_owned());
            status.hide_from(&viewer(AccessScope::Admin, sessions));
            assert_eq!(status.what.parent.is_some(), shown, "{sessions:?}");
        }
    }

    #[test]
    fn a_problem_names_no_session_that_is_not_in_the_list() {
        for (code, named, shown) in [
            (ProblemCode::InUse, OTHER, false),
            (ProblemCode::InUse, MINE, true),
            (ProblemCode::Refused, OTHER, true),
        ] {
            let mut problem = Problem::new(code, format!("session {named} writes it")).hint("stop it");
            let before = problem.clone();
            problem.hide_from(&viewer(AccessScope::Admin, Some(MINE)));
            assert_eq!(problem == before, shown, "{problem:?}");
        }
    }
}
