//! Pseudo terminals.
//!
//! Promise: both ends close on exec, the master never blocks, and the slave is opened from the master
//! itself, so it is the right one in any mount namespace.
//! Not here: making it the controlling terminal (see [`crate::spawn`]), the meaning of the bytes.
//! Start with [`Pty::open`].

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// Our end of a pseudo terminal. Closing it hangs up on the processes that use the other end.
#[derive(Debug)]
pub struct Pty {
    /// The master, non-blocking.
    pub master: OwnedFd,
}

impl Pty {
    /// Makes a terminal of this size, and returns our end and the end for the child.
    pub fn open(rows: u16, cols: u16) -> io::Result<(Pty, OwnedFd)> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let master = open("/dev/ptmx", flags, Mode::empty())?;
        unlockpt(&master)?;
        let slave =
            ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        let mut modes = tcgetattr(&slave)?;
        // With IUTF8 the line editor of the kernel erases a whole character, not one byte of it.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        let pty = Pty { master };
        pty.resize(rows, cols)?;
        Ok((pty, slave))
    }

    /// The size as the other side sees it: rows, then columns.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        let size = rustix::termios::tcgetwinsize(&self.master)?;
        Ok((size.ws_row, size.ws_col))
    }

    /// Changes the size. The programs in front are sent `SIGWINCH` if it differs.
    pub fn resize(&self, rows: u16, cols: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, size)?)
    }
}
