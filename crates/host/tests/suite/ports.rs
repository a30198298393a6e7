//! Listeners found through `/proc`, with real sockets.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use berth_host::ports::{ListeningSocket, SocketAddress, listening_sockets, processes_on_port};
use berth_test_dir::TestDir;

use crate::common::ScriptShell;

fn me() -> u32 {
    std::process::id()
}

fn tcp(listener: &TcpListener) -> SocketAddress {
    let address = listener.local_addr().unwrap();
    SocketAddress::Tcp { ip: address.ip(), port: address.port() }
}

#[test]
fn every_kind_of_listener_is_found_and_connections_are_not() {
    let scratch = TestDir::new();
    let four = TcpListener::bind("127.0.0.1:0").unwrap();
    let six = TcpListener::bind("[::1]:0");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
    connected.connect(udp.local_addr().unwrap()).unwrap();
    let client = TcpStream::connect(four.local_addr().unwrap()).unwrap();
    let unix = UnixListener::bind(scratch.join("a socket")).unwrap();
    let unix_client = UnixStream::connect(scratch.join("a socket")).unwrap();
    let name = format!("berth-ports-{}", scratch.file_name().unwrap().display());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();

    let found = listening_sockets(&[me()]).unwrap();
    let has =
        |address: &SocketAddress| found.contains(&ListeningSocket { pid: me(), address: address.clone() });
    assert!(has(&tcp(&four)), "{found:?}");
    // A machine without IPv6 has no such listener.
    assert!(six.as_ref().map_or(true, |six| has(&tcp(six))), "{found:?}");
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    assert!(has(&SocketAddress::Udp { ip: [127, 0, 0, 1].into(), port: port(&udp) }), "{found:?}");
    assert!(!has(&SocketAddress::Udp { ip: [127, 0, 0, 1].into(), port: port(&connected) }), "{found:?}");
    assert!(has(&SocketAddress::Unix { path: scratch.join("a socket") }), "{found:?}");
    assert!(has(&SocketAddress::Unix { path: format!("@{name}").into() }), "{found:?}");
    let client_port = client.local_addr().unwrap().port();
    assert!(found.iter().all(|found| found.address.port() != Some(client_port)), "{found:?}");
    drop((unix, unix_client, hidden));
}

#[test]
fn a_socket_that_was_handed_on_is_told_of_both() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut shell = ScriptShell::run_with("echo up; read x", &[], &[listener.as_fd()]);
    assert_eq!(shell.line(), "up");
    let address = tcp(&listener);
    let expected: Vec<ListeningSocket> =
        [me(), shell.child.pid].map(|pid| ListeningSocket { pid, address: address.clone() }).into();
    let port = address.port().unwrap();
    let found = processes_on_port(port).unwrap();
    assert_eq!(found.listening, expected);
    assert!(found.unowned.is_empty(), "{found:?}");
    assert_eq!(listening_sockets(&[shell.child.pid]).unwrap(), expected[1..]);
    drop(listener);
    assert_eq!(processes_on_port(port).unwrap().listening, expected[1..]);
    assert_eq!(shell.finish(), 1, "`read` met the end of its input");
    assert!(processes_on_port(port).unwrap().listening.is_empty());
}

#[test]
fn a_relative_path_is_completed_with_where_the_process_is() {
    let scratch = TestDir::new();
    // Bound with a relative name in a directory that only the child enters.
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
    else {
        return;
    };
    let script = format!(
        "cd {} && exec {python} -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"near\"); s.listen(); print(\"up\", flush=True); input()'",
        scratch.display()
    );
    let mut shell = ScriptShell::run(&script);
    assert_eq!(shell.line(), "up");
    let expected =
        ListeningSocket { pid: shell.child.pid, address: SocketAddress::Unix { path: scratch.join("near") } };
    assert_eq!(listening_sockets(&[shell.child.pid]).unwrap(), [expected]);
}

#[test]
fn an_empty_list_and_a_zombie_have_no_ports() {
    let shell = ScriptShell::run("exit 0");
    let pid = shell.child.pid;
    crate::common::await_exit(&shell.child.pidfd);
    assert!(listening_sockets(&[pid]).unwrap().is_empty(), "a zombie has closed everything");
    assert_eq!(shell.finish(), 0);
    assert!(listening_sockets(&[pid, 0, u32::MAX]).unwrap().is_empty());
    assert!(listening_sockets(&[]).unwrap().is_empty());
}
