//! Messages that systemd gets from a gateway that is its service (`Type=notify`, `WatchdogSec=`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use berth_harness::{PATIENCE, TestEnvironment};
use rustix::process::Signal;

use crate::gateway_server::lab;

/// The socket on which systemd would listen.
struct SystemdNotifySocket(UnixDatagram);

impl SystemdNotifySocket {
    /// Listens at a path of the lab; also the variable that says so.
    fn at_a_path(lab: &TestEnvironment) -> (Self, String) {
        let path = lab.dir().join("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        (Self::patient(socket), path.display().to_string())
    }

    /// Listens at an abstract socket name, which is in no directory.
    fn at_a_name(lab: &TestEnvironment) -> (Self, String) {
        let name = format!("{}/notify", lab.dir().display());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        (Self::patient(UnixDatagram::bind_addr(&address).expect("a socket")), format!("@{name}"))
    }

    fn patient(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Self(socket)
    }

    /// Waits for the next message.
    fn hear(&self) -> String {
        let mut buffer = [0; 256];
        let count = self.0.recv(&mut buffer).expect("a message in time");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    /// Waits for the first message that is not a sign of life.
    fn hear_news(&self) -> String {
        loop {
            let heard = self.hear();
            if heard != "WATCHDOG=1" {
                return heard;
            }
        }
    }
}

#[test]
fn systemd_hears_that_it_is_ready_that_it_lives_and_that_it_ends() {
    for place in [SystemdNotifySocket::at_a_path, SystemdNotifySocket::at_a_name] {
        let lab = lab();
        let (manager, address) = place(&lab);
        let variables = [("NOTIFY_SOCKET", address.as_str()), ("WATCHDOG_USEC", "200000")];
        let mut gateway = lab.serve_in(&[], &variables);
        assert_eq!(manager.hear(), "READY=1");
        for _ in 0..3 {
            assert_eq!(manager.hear(), "WATCHDOG=1");
        }
        assert_eq!(gateway.get("/healthz").status, 200);
        gateway.signal(Signal::TERM);
        assert_eq!(manager.hear_news(), "STOPPING=1");
        assert_eq!(gateway.wait(), 0);
        // The gateway has ended, so all its messages are here.
        manager.0.set_nonblocking(true).expect("a socket");
        assert!(manager.0.recv(&mut [0; 256]).is_err(), "it says nothing after its last word");
    }
}

#[test]
fn systemd_hears_of_a_gateway_that_started_again_in_place_and_of_its_life() {
    let lab = lab();
    let (manager, address) = SystemdNotifySocket::at_a_path(&lab);
    let gateway = lab.serve_in(
        &[],
        &[
            ("NOTIFY_SOCKET", &address),
            ("WATCHDOG_USEC", "200000"),
            ("BERTH_KILLPOINT", "stall:gateway-accept"),
            ("BERTH_STUCK_MS", "2000"),
        ],
    );
    assert_eq!(manager.hear(), "READY=1");
    let _lost = gateway.connect();
    assert_eq!(manager.hear_news(), "READY=1", "the same process, once more");
    assert_eq!(manager.hear(), "WATCHDOG=1");
    assert_eq!(gateway.get("/healthz").status, 200);
}
