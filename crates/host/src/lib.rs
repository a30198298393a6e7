//! The Linux facilities that berth uses: processes and their identity, ptys, signals, locks, control groups and their
//! limits, clocks, sockets, private directories, systemd, and the watchdog that replaces a stuck program.
//!
//! Promise: nothing here blocks without a limit (unless a mount hangs), acts on a process it cannot
//! identify, or leaks a descriptor into a child. This is the only crate of the project with `unsafe` in it.
//! Not here: sessions, policies, messages. This crate does not know what a session is.
//! Start with [`spawn::spawn`] and [`process_tree`], then [`identity`].

pub mod cgroup;
pub mod clock;
mod dbus;
pub mod dir;
pub mod disk;
pub mod facts;
pub mod file_permissions;
pub mod identity;
pub mod lock;
pub mod memory;
pub mod open_file_limit;
pub mod ports;
mod proc;
pub mod process;
pub mod process_tree;
pub mod pty;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod stdio;
pub mod systemd;
pub mod watchdog;

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `buffer` with random bytes from the kernel.
pub fn random_bytes(buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match getrandom(&mut buffer[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A random UUID (version 4) out of random bytes.
pub fn uuid_from_random_bytes(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The message of an operating system error, for people: lower case and without the number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// The result of a libc call that answers -1 and sets `errno` when it fails.
fn checked(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_of_random_bytes_differ() {
        let (mut one, mut two) = ([0; 16], [0; 16]);
        random_bytes(&mut one).unwrap();
        random_bytes(&mut two).unwrap();
        assert_ne!(one, two);
    }

    #[test]
    fn a_reason_is_lower_case_and_has_no_number() {
        assert_eq!(reason(&io::Error::from_raw_os_error(libc::EACCES)), "permission denied");
    }
}
