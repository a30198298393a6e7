//! Whether this process was started with its standard output closed.
//!
//! Rust's runtime opens `/dev/null` in place of standard streams that are closed, before `main`: from then on every
//! write succeeds and is lost. The flags of the descriptor do not tell that from a `/dev/null` that the
//! caller chose: Python and Node open theirs for reading and writing, as the runtime does. So this looks before the
//! runtime does, as a constructor of the program.
//! Start with [`is_stdout_closed`].

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when this process began (`>&-`).
pub fn is_stdout_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the loader calls every entry of this section once, before `main`, with C's calling convention. `look` uses
// nothing that the runtime sets up: one system call and an atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the call only reads the flags of a descriptor, whatever that descriptor is.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_CLOSED.store(flags < 0, Ordering::Relaxed);
}
