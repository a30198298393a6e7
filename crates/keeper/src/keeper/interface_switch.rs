//! Switching the agent's interface within a session: refused where it would harm, else recorded.
//!
//! Promise: the current run ends only after a check that the next run may write the conversation, as far as that can
//! be known; waiting clients get the reason if the switch fails.
//! Not here: when the run ends and the next one begins (`berth_core`), how that is started (`next_run`).
//! Start with [`Keeper::switch_interface`].

use std::time::Duration;

use berth_api::Problem;
use berth_api::message::KeeperAnswer;
use berth_core::{AgentInterface, Command};

use super::Keeper;
use super::client_table::ClientWait;
use super::prepared_conversation::can_go_on;
use super::run_conversation::foreign_writer;

impl Keeper {
    pub(super) fn switch_interface(
        &mut self,
        key: u64,
        to: AgentInterface,
        at_once: bool,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        let session = self.journal.session();
        if session.spec.as_ref().is_some_and(|spec| spec.interface() != to && spec.other.is_some()) {
            let handle = self.handle_name();
            can_go_on(session, to, &handle)?;
            if self.tui_turns.has_unsent_text() && !at_once {
                let what = format!("text is typed into the terminal of session `{handle}` and not sent");
                return Err(Problem::held(what).hint(format!(
                    "send or clear it there (`berth attach {handle}`); --now goes on without it"
                )));
            }
            if let Some(who) = foreign_writer(session, &self.identity) {
                let what = format!("the conversation of session `{handle}` is being written by {who}");
                return Err(Problem::in_use(what).hint("close it there, then try again"));
            }
        }
        self.order(Command::SwitchInterface { to, at_once, by })?;
        self.done()
    }

    /// The next run cannot begin, and only the client that asked for it would try again.
    pub(super) fn give_up_switching(&mut self, problem: &Problem) {
        let answer = KeeperAnswer::Problem { problem: problem.clone() };
        self.clients.answer_waiting(ClientWait::AgentReady, &answer);
        let place = format!("berth: the next run cannot begin: {}", problem.what);
        let by = self.identity.as_actor(place);
        // A disk that accepts no notes keeps the session as it is: its next run has the chosen interface.
        let _ = self.order(Command::Stop { by, grace: Duration::ZERO });
    }
}
