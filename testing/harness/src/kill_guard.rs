//! A child process that does not outlive its test.

use std::ops::{Deref, DerefMut};
use std::process::Child;

/// Kills a child and waits for its end when dropped, however the test ends.
#[derive(Debug)]
pub struct ProcessKillGuard {
    child: Child,
}

impl ProcessKillGuard {
    /// Guards a child that was just started.
    pub fn new(child: Child) -> Self {
        Self { child }
    }

    /// The process id of the child.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the child now, as with `kill -9`, and waits for its end. A child that has ended already is no error.
    pub fn kill_and_wait(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Deref for ProcessKillGuard {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for ProcessKillGuard {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for ProcessKillGuard {
    fn drop(&mut self) {
        self.kill_and_wait();
    }
}
