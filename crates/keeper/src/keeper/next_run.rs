//! The next run of a keeper that stays: after an agent ended while turns wait, or for another interface.
//!
//! Not here: the first run of a keeper (`begin`), when the next one is due (`berth_core`).

use berth_api::Problem;
use berth_api::message::Take;
use berth_core::{Actor, Command, Hold, Observation};
use berth_store::process;

use super::take_up::TakeUp;
use super::tui_turns::TuiTurns;
use super::{Keeper, now, trouble};
use crate::boundary::Contained;
use crate::journaled_session::Input;

impl Keeper {
    /// The run is over and something waits: begins the next one, without another request.
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
            let hold = Hold::AgentFailed { reason: problem.what };
            // If its time is up, what waits is withdrawn; else it waits for a person to mend it.
            self.report(vec![Observation::Tick, Observation::Held { hold }]);
        }
    }

    fn try_next_run(&mut self) -> Result<(), Problem> {
        let session = self.journal.session();
        let spec = session.spec.clone().unwrap_or_default();
        // The right to write it is the keeper's already; other programs that write it are looked for again.
        self.conversation.unlock();
        let identity = &self.identity;
        let by = Actor::default();
        let take_up = TakeUp::prepare(identity.files(), session, &spec, &Take::Nobody, &by)?;
        let epoch = self.journal.next_epoch();
        let contained = Contained::make(identity.session(), epoch, &spec.limits)?;
        let mut inputs = take_up.inputs;
        inputs.push(Input::Command(Command::Start {
            epoch,
            keeper: process::process(identity.process().clone()),
            output_from: self.output.end(),
            boundary: contained.boundary(),
        }));
        if let Some(refusal) = self.journal.refusal(&inputs, now()) {
            return Err(self.refused(&refusal));
        }
        self.run.begin_run(contained).map_err(|error| trouble("watch the run's control group", &error))?;
        self.conversation.take_up(take_up.begin, take_up.lock);
        // The status may say that the session is over, and would be believed if we died right after this.
        let doubted = self.identity.files().doubt_short_cut();
        doubted.map_err(|error| trouble("begin the next run", &error))?;
        self.take(inputs)?;
        self.journal.sign_lease(self.identity.process());
        Ok(())
    }
}
