//! What every command needs: what every verb needs, and the session --session names.

use std::ops::Deref;

use berth_api::Problem;

pub(crate) use berth_verbs::ctx::ANSWER_PATIENCE;

use crate::tty;

#[derive(Clone, Debug)]
pub(crate) struct Ctx {
    verbs: berth_verbs::Ctx,
    /// What --session says; see `meant`.
    pub(crate) session: Option<String>,
}

impl Ctx {
    pub(crate) fn open() -> Result<Self, Problem> {
        let verbs = berth_verbs::Ctx::open(tty::place(), tty::size())?;
        Ok(Self { verbs: verbs.from_here(), session: None })
    }

    /// The same with the session that --session names.
    pub(crate) fn about(self, session: Option<String>) -> Self {
        Self { session, ..self }
    }

    /// The same for whoever is somewhere else: an editor, another agent.
    pub(crate) fn at(&self, place: String) -> Self {
        Self { verbs: berth_verbs::Ctx { place, ..self.verbs.clone() }, session: self.session.clone() }
    }

    /// The same for helpers: everything that can be asked of a session can be asked of them.
    pub(crate) fn helpers(&self) -> Result<Self, Problem> {
        Ok(Self { verbs: self.verbs.helpers()?, session: None })
    }
}

impl Deref for Ctx {
    type Target = berth_verbs::Ctx;

    fn deref(&self) -> &berth_verbs::Ctx {
        &self.verbs
    }
}
