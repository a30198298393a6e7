//! The current session of the terminal that a person is at.
//!
//! Not here: the records (see `berth_store::current_session`). Start with [`set_current_session`].

use berth_core::SessionId;
use berth_procs::own_terminal;
use berth_store::StateDir;

use crate::print;

/// Makes a session the current one of this terminal, if there is a person at it. Nothing is lost if that
/// fails, but they should know what `@` still means.
pub fn set_current_session(home: &StateDir, id: &SessionId) {
    let Some(terminal) = own_terminal::own_terminal().filter(|_| own_terminal::is_foreground_process())
    else {
        return;
    };
    if let Err(problem) = home.set_current(&terminal, id) {
        print::problem(&problem);
    }
}
