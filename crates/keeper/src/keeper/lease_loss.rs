//! A lease that was removed or replaced while its keeper ran: by a cleaner, an atomic rename, a restore over
//! a live directory.
//!
//! Promise: no request is accepted any more, and the run ends. While the directory is still the keeper's (its lock is held,
//! so no other process can have claimed it), the end is recorded. If the directory itself was replaced, nothing is written
//! at its path: it belongs to another session.
//! Start with [`Keeper::check_lease`].

use berth_api::Problem;
use berth_core::{Command, Event};
use berth_host::clock;
use berth_store::store::LeaseIntegrity;

use super::{Keeper, SIGTERM_GRACE};
use crate::journaled_session::SessionInput;

/// The thing that was removed or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaseLoss {
    /// The lease file.
    File,
    /// The whole directory of the session.
    Directory,
}

impl Keeper {
    /// Compares the lease at its path with the one that this keeper locked, and rejects the batch if they differ.
    /// Called before each commit.
    pub(super) fn check_lease(&mut self, inputs: &[SessionInput]) -> Result<(), Problem> {
        // Checked even after the file was lost: the directory may follow.
        let known = self.journal.lease_loss();
        let loss = match self.journal.lease().standing() {
            Ok(LeaseIntegrity::Intact) => known,
            Ok(LeaseIntegrity::FileReplaced) => known.or(Some(LeaseLoss::File)),
            Ok(LeaseIntegrity::DirectoryReplaced) => Some(LeaseLoss::Directory),
            Err(error) => return Err(self.journal.lease().unreadable(&error)),
        };
        let Some(loss) = loss else { return Ok(()) };
        if self.journal.note_loss(loss) {
            self.end_without_lease(loss);
        }
        match loss {
            LeaseLoss::File if inputs.iter().all(belongs_to_an_end) => Ok(()),
            LeaseLoss::File => Err(self.lease_problem(LeaseIntegrity::FileReplaced)),
            LeaseLoss::Directory => Err(self.lease_problem(LeaseIntegrity::DirectoryReplaced)),
        }
    }

    /// Leaves once no process of the run is left, if that cannot be recorded.
    pub(super) fn leave_if_disowned(&mut self) {
        if self.journal.is_disowned() && self.journal.waiting().has_end_of_run() {
            self.run.remove_boundary();
            self.event_loop.leave();
        }
    }

    fn end_without_lease(&mut self, loss: LeaseLoss) {
        tracing::error!(?loss, "the lease was removed or replaced: the run ends");
        match loss {
            LeaseLoss::File => {
                let what =
                    "the lease file was removed or replaced while the keeper ran: the keeper ends its run";
                let by = self.identity.as_actor("its keeper, without a lease");
                let stop = Command::Stop { by, grace: SIGTERM_GRACE };
                let warned = Event::Warned { what: what.to_owned() };
                if self.commit(vec![SessionInput::Note(warned), SessionInput::Command(stop)]).is_err() {
                    self.run.terminate();
                }
            }
            LeaseLoss::Directory => {
                let now = clock::boot_ms();
                self.run.kill_from(now, now + SIGTERM_GRACE.as_millis() as u64);
                self.run.terminate();
                self.on_children();
            }
        }
    }

    fn lease_problem(&self, lost: LeaseIntegrity) -> Problem {
        self.journal.lease().lost_problem(lost, &self.handle_name())
    }
}

/// True for inputs that belong to the end of a run. New work is refused.
fn belongs_to_an_end(input: &SessionInput) -> bool {
    match input {
        SessionInput::Report(_) | SessionInput::Note(_) => true,
        SessionInput::Command(command) => {
            matches!(command, Command::Stop { .. } | Command::ReleaseWriter { .. })
        }
    }
}
