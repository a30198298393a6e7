//! The context of every command: that of the verbs, and the session that --session names.

use std::ops::Deref;

use berth_api::Problem;

use crate::tty;

#[derive(Clone, Debug)]
pub(crate) struct CommandContext {
    verbs: berth_verbs::VerbContext,
    /// The value of --session; see `target_session`.
    pub(crate) session: Option<String>,
}

impl CommandContext {
    pub(crate) fn open() -> Result<Self, Problem> {
        let verbs = berth_verbs::VerbContext::open(tty::terminal_description(), tty::terminal_size())?;
        Ok(Self { verbs: verbs.from_here(), session: None })
    }

    /// The context of every verb, with the session that `--session` names.
    pub(crate) fn of(verbs: berth_verbs::VerbContext, session: Option<String>) -> Self {
        Self { verbs, session }
    }

    /// Sets the session that --session names.
    pub(crate) fn about(self, session: Option<String>) -> Self {
        Self { session, ..self }
    }

    /// A copy with another place of the caller, such as an editor or an agent.
    pub(crate) fn verbs(&self) -> berth_verbs::VerbContext {
        self.verbs.clone()
    }

    /// A copy for helpers, so that commands for sessions work on helpers.
    pub(crate) fn helpers(&self) -> Result<Self, Problem> {
        Ok(Self { verbs: self.verbs.helpers()?, session: None })
    }
}

impl Deref for CommandContext {
    type Target = berth_verbs::VerbContext;

    fn deref(&self) -> &berth_verbs::VerbContext {
        &self.verbs
    }
}
