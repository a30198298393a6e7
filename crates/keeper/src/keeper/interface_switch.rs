//! Another interface of the agent in the same session: refused where it would harm, else chosen.
//!
//! Promise: nothing is ended before it is known that the next run may write the conversation, as far as that can be
//! known; clients that wait for the other interface hear why it does not come.
//! Not here: when the run ends and the next one begins (`berth_core`), how that is started (`next_run`).
//! Start with [`Keeper::switch_interface`].

use std::time::Duration;

use berth_api::message::Answer;
use berth_api::{Code, Problem};
use berth_core::{Command, Interface};

use super::Keeper;
use super::agent_conversation::foreign_writer;
use super::client_table::ClientWait;
use super::take_up::can_go_on;

impl Keeper {
    pub(super) fn switch_interface(
        &mut self,
        key: u64,
        to: Interface,
        at_once: bool,
    ) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        let session = self.journal.session();
        if session.spec.as_ref().is_some_and(|spec| spec.interface() != to && spec.other.is_some()) {
            let handle = self.handle_name();
            can_go_on(session, to, &handle)?;
            if self.tui_turns.has_unsent_text() && !at_once {
                let what = format!("text is typed into the terminal of session `{handle}` and not sent");
                return Err(Problem::new(Code::Held, what).hint(format!(
                    "send or clear it there (`berth attach {handle}`); --now goes on without it"
                )));
            }
            if let Some(who) = foreign_writer(session, &self.identity) {
                let what = format!("the conversation of session `{handle}` is being written by {who}");
                return Err(Problem::new(Code::InUse, what).hint("close it there, then try again"));
            }
        }
        self.order(Command::SwitchInterface { to, at_once, by })?;
        self.done()
    }

    /// The next run cannot begin, and no other program than the one that asked for it would try again.
    pub(super) fn give_up_switching(&mut self, problem: &Problem) {
        let answer = Answer::Problem { problem: problem.clone() };
        self.clients.answer_waiting(ClientWait::AgentReady, &answer);
        let place = format!("berth: the next run cannot begin: {}", problem.what);
        let by = self.identity.as_actor(place);
        // A disk that takes no notes keeps the session as it is: its next run has the interface that was chosen.
        let _ = self.order(Command::Stop { by, grace: Duration::ZERO });
    }
}
