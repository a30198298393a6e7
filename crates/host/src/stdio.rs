//! Detects that this process was started with a standard output that takes no output: closed, or open for reading only.
//!
//! Rust's runtime opens `/dev/null` in place of closed standard streams before `main`, and its `Stdout` takes the error
//! of a descriptor that is not open for writing (`EBADF`) for a success: every write succeeds and is lost. The flags of
//! the descriptor do not tell that `/dev/null` from one that the caller chose: Python and Node open theirs for reading
//! and writing, as the runtime does. So this module looks before the runtime does, as a constructor of the program.
//! Start with [`is_stdout_unwritable`].

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_UNWRITABLE: AtomicBool = AtomicBool::new(false);

/// True if standard output was closed (`>&-`) or not open for writing (`1</dev/null`) when this process began.
pub fn is_stdout_unwritable() -> bool {
    STDOUT_UNWRITABLE.load(Ordering::Relaxed)
}

/// Writes all bytes to standard output. A reader that has left is an error and does not end the process.
pub fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    if is_stdout_unwritable() && !bytes.is_empty() {
        return Err(rustix::io::Errno::BADF.into());
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

// SAFETY: the loader calls every entry of this section once, before `main`, with C's calling convention.
// `record_stdout_mode` uses nothing that the runtime sets up: one system call and an atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_STDOUT_MODE: extern "C" fn() = record_stdout_mode;

extern "C" fn record_stdout_mode() {
    // SAFETY: the call only reads the flags of a descriptor, and any descriptor number is allowed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFL) };
    let is_unwritable = flags < 0 || flags & libc::O_ACCMODE == libc::O_RDONLY;
    STDOUT_UNWRITABLE.store(is_unwritable, Ordering::Relaxed);
}
