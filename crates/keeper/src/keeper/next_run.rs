//! The next run of a keeper that stays: after an agent ended while turns wait, or for another interface.
//!
//! Not here: the first run of a keeper (`begin`), when the next one is due (`berth_core`).

use berth_api::Problem;
use berth_api::message::WriterTakeover;
use berth_core::{Actor, Command, Observation, QueueHold};
use berth_procs::run_cgroups::RunCgroups;
use berth_store::process_ref;

use super::prepared_conversation::PreparedConversation;
use super::tui_turns::TuiTurns;
use super::{Keeper, now, trouble};
use crate::journaled_session::SessionInput;

impl Keeper {
    /// Begins the next run, without another request: the last one is over and turns wait.
    pub(super) fn next_run(&mut self) {
        self.run.remove_boundary();
        if let Some(agent) = self.agent.take() {
            agent.close();
        }
        self.terminal.reset();
        self.tui_turns = TuiTurns::default();
        self.clients.repaint_all();
        self.conversation.will_be_reread();
        self.renew_watchdog();
        if let Err(problem) = self.try_next_run() {
            if self.journal.session().switching {
                self.give_up_switching(&problem);
            }
            let hold = QueueHold::AgentFailed { reason: problem.what };
            // If the session's time is up, waiting turns are withdrawn; else they wait until a user fixes the problem.
            self.report(vec![Observation::Tick, Observation::Held { hold }]);
        }
    }

    fn try_next_run(&mut self) -> Result<(), Problem> {
        let session = self.journal.session();
        let spec = session.spec.clone().unwrap_or_default();
        // The keeper has the right to write the conversation already; other writers are looked for again.
        self.conversation.unlock();
        let identity = &self.identity;
        let by = Actor::default();
        let take_up =
            PreparedConversation::prepare(identity.files(), session, &spec, &WriterTakeover::None, &by)?;
        let epoch = self.journal.next_epoch();
        let contained = RunCgroups::make(identity.session(), epoch, &spec.limits)?;
        let mut inputs = take_up.inputs;
        inputs.push(SessionInput::Command(Command::Start {
            epoch,
            keeper: process_ref::to_process_ref(identity.process().clone()),
            output_from: self.output.end(),
            boundary: contained.boundary(),
        }));
        if let Some(refusal) = self.journal.refusal(&inputs, now()) {
            return Err(self.refused(&refusal));
        }
        self.run.begin_run(contained).map_err(|error| trouble("watch the run's control group", &error))?;
        self.conversation.take_up(take_up.begin, take_up.lock);
        // The status may say that the session is over, and would be believed if this keeper died right after this.
        let doubted = self.identity.files().invalidate_status_cache();
        doubted.map_err(|error| trouble("begin the next run", &error))?;
        self.take(inputs)?;
        self.journal.sign_lease(self.identity.process());
        Ok(())
    }
}
