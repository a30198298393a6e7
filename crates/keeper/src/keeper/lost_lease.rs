//! A keeper whose lease was removed or replaced while it ran: by a cleaner, an atomic rename, a restore over a live
//! directory.
//!
//! Promise: no request is accepted any more, and the run ends. While the directory is still ours (its lock is held, so
//! nobody else can have claimed it), the end is recorded. If the directory itself was replaced, nothing is written at
//! its path: what is there is not ours.
//! Start with [`Keeper::check_lease`].

use berth_api::Problem;
use berth_core::{Actor, Command, Event, Observation};
use berth_host::clock;
use berth_store::store::{Standing, lost_problem, unreadable};

use super::{Keeper, SIGTERM_GRACE};
use crate::owner::Input;

/// What was removed or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaseLoss {
    /// The lease file.
    File,
    /// The whole directory of the session.
    Directory,
}

impl Keeper {
    /// Looks whether the lease at its path is still the one that this keeper locked, and refuses the batch if it is
    /// not. Called before each commit.
    pub(super) fn check_lease(&mut self, inputs: &[Input]) -> Result<(), Problem> {
        // Also after the file was lost: the directory may follow.
        let loss = match self.lease.standing() {
            Ok(Standing::Intact) => self.lost_lease,
            Ok(Standing::FileReplaced) => self.lost_lease.or(Some(LeaseLoss::File)),
            Ok(Standing::DirectoryReplaced) => Some(LeaseLoss::Directory),
            Err(error) => return Err(unreadable(&self.dir, &error)),
        };
        let Some(loss) = loss else { return Ok(()) };
        if self.lost_lease != Some(loss) {
            self.lost_lease = Some(loss);
            self.end_without_lease(loss);
        }
        match loss {
            LeaseLoss::File if inputs.iter().all(belongs_to_an_end) => Ok(()),
            LeaseLoss::File => Err(self.lease_problem(Standing::FileReplaced)),
            LeaseLoss::Directory => Err(self.lease_problem(Standing::DirectoryReplaced)),
        }
    }

    /// True if the session's directory is no longer the one at its path.
    pub(super) fn is_disowned(&self) -> bool {
        self.lost_lease == Some(LeaseLoss::Directory)
    }

    /// Leaves once nothing of the run is left, if that cannot be recorded.
    pub(super) fn leave_if_disowned(&mut self) {
        let is_empty = |report: &Observation| matches!(report, Observation::Empty { .. });
        if self.is_disowned() && self.unjournalled.iter().any(is_empty) {
            self.contained.remove();
            self.leaving = true;
        }
    }

    fn end_without_lease(&mut self, loss: LeaseLoss) {
        tracing::error!(?loss, "the lease was removed or replaced: the run ends");
        match loss {
            LeaseLoss::File => {
                let what =
                    "the lease file was removed or replaced while the keeper ran: the keeper ends its run";
                let by =
                    Actor { pid: self.me.pid, uid: None, place: "its keeper, without a lease".to_owned() };
                let stop = Command::Stop { by, grace: SIGTERM_GRACE };
                let warned = Event::Warned { what: what.to_owned() };
                if self.commit(vec![Input::Note(warned), Input::Command(stop)]).is_err() {
                    self.terminate_tree();
                }
            }
            LeaseLoss::Directory => {
                let now = clock::boot_ms();
                self.killed_at_ms = Some(now);
                self.kill_again_at_ms = Some(now + SIGTERM_GRACE.as_millis() as u64);
                self.terminate_tree();
                self.on_children();
            }
        }
    }

    fn lease_problem(&self, lost: Standing) -> Problem {
        lost_problem(lost, &self.handle_name(), &self.dir)
    }
}

/// True for inputs that belong to the end of a run. New work is refused.
fn belongs_to_an_end(input: &Input) -> bool {
    match input {
        Input::Report(_) | Input::Note(_) => true,
        Input::Command(command) => matches!(command, Command::Stop { .. } | Command::ReleaseWriter { .. }),
    }
}
