//! Notifications for systemd (`Type=notify`). Without systemd nothing is sent.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Sends a notification. A failure is only logged, because the gateway works without systemd.
pub(super) fn tell(what: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET").filter(|place| !place.is_empty()) else { return };
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    let told = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(what.as_bytes(), &address)
    });
    if let Err(error) = told {
        tracing::debug!(%error, what, "systemd could not be notified");
    }
}

/// Interval of watchdog notifications, if systemd asks for them: half of its timeout.
pub(super) fn wants_signs_every() -> Option<Duration> {
    let pid = std::env::var("WATCHDOG_PID").ok();
    if pid.is_some_and(|pid| pid.parse() != Ok(std::process::id())) {
        return None;
    }
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok().filter(|micros| *micros > 0)?;
    Some(Duration::from_micros(micros) / 2)
}
