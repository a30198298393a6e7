//! Private directories, and sockets in them.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use berth_host::dir::{DirError, private_dir};
use berth_host::socket::{PeerCredentials, connect, listen_at, peer_credentials};
use berth_test_dir::TestDir;

use crate::common::{alone, await_readable};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let scratch = TestDir::new();
    let path = scratch.join("one/two");
    private_dir(&path).unwrap();
    assert_eq!((mode(&path), mode(&scratch.join("one"))), (0o700, 0o700));
    private_dir(&path).unwrap();
}

#[test]
fn a_directory_open_to_others_is_refused_with_the_way_out() {
    let scratch = TestDir::new();
    let path = scratch.join("open");
    fs::create_dir(&path).unwrap();
    for open in [0o755, 0o710, 0o701, 0o770] {
        fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
        let told = private_dir(&path).unwrap_err().to_string();
        let path = path.display();
        let expected = format!(
            "the directory {path} is open to other users (mode {open:o}): close it with `chmod 700 {path}`"
        );
        assert_eq!(told, expected);
    }
    assert_eq!(mode(&path), 0o770, "people decide about permissions");
}

#[test]
fn a_path_that_is_not_our_own_directory_is_refused() {
    let scratch = TestDir::new();
    fs::write(scratch.join("file"), "").unwrap();
    assert!(matches!(private_dir(&scratch.join("file")), Err(DirError::NotDirectory(_))));

    private_dir(&scratch.join("real")).unwrap();
    symlink(scratch.join("real"), scratch.join("link")).unwrap();
    for link in ["link", "link/", "link/."] {
        assert!(matches!(private_dir(&scratch.join(link)), Err(DirError::Link(_))), "{link}");
    }
    symlink("nowhere", scratch.join("dangling")).unwrap();
    assert!(matches!(private_dir(&scratch.join("dangling")), Err(DirError::Link(_))));
    assert!(matches!(private_dir(Path::new("/proc/no/such")), Err(DirError::Make { .. })));

    if rustix::process::geteuid().is_root() {
        private_dir(&scratch.join("theirs")).unwrap();
        chown(scratch.join("theirs"), Some(12345), None).unwrap();
        let refused = private_dir(&scratch.join("theirs"));
        assert!(matches!(refused, Err(DirError::Owner { owner: 12345, me: 0, .. })), "{refused:?}");
    }
}

/// Sends a word from a client to a listener on this path and checks which process sent it.
fn talk(dir: &Path) {
    let listener = listen_at(dir, "sock").unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let mut client = connect(dir, "sock").unwrap();
    client.write_all(b"word").unwrap();
    drop(client);
    await_readable(listener.as_fd());
    let (mut stream, _) = listener.accept().unwrap();
    let me = PeerCredentials { uid: rustix::process::geteuid().as_raw(), pid: std::process::id() };
    assert_eq!(peer_credentials(&stream).unwrap(), me);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "word");
}

#[test]
fn a_socket_works_at_a_path_of_any_length() {
    let scratch = TestDir::new();
    talk(&scratch);
    // Around the limit of an address, where being off by one would show, and far beyond.
    for length in [90, 101, 102, 103, 104, 300, 3000] {
        let mut path = scratch.to_path_buf();
        while path.as_os_str().len() + 1 < length {
            let rest = length - path.as_os_str().len() - 1;
            path.push("d".repeat(rest.min(200)));
        }
        fs::create_dir_all(&path).unwrap();
        talk(&path);
    }
}

#[test]
fn a_socket_is_for_its_owner_under_any_umask() {
    let _turn = alone();
    let scratch = TestDir::new();
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let listener = listen_at(&scratch, "sock");
    rustix::process::umask(before);
    drop(listener.unwrap());
    assert_eq!(mode(&scratch.join("sock")), 0o600);
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let scratch = TestDir::new();
    drop(listen_at(&scratch, "sock").unwrap());
    assert_eq!(connect(&scratch, "sock").unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    talk(&scratch);

    let file: PathBuf = scratch.join("file");
    fs::write(&file, "precious").unwrap();
    assert_eq!(listen_at(&scratch, "file").unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
}

#[test]
fn hundreds_of_clients_that_connect_at_once_wait_for_their_turn() {
    const MANY: usize = 300;
    let allowed = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if allowed.trim().parse::<usize>().unwrap() < MANY {
        eprintln!("SKIPPED: the kernel lets {} wait", allowed.trim());
        return;
    }
    let scratch = TestDir::new();
    let listener = listen_at(&scratch, "sock").unwrap();
    // The listener has not accepted any connection yet.
    let waiting: Vec<_> = (0..MANY).map(|_| connect(&scratch, "sock").unwrap()).collect();
    for _ in &waiting {
        listener.accept().unwrap();
    }
}
