//! Private directories, and sockets in them.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use berth_host::dir::{DirError, private_dir};
use berth_host::socket::{Peer, connect, listen, peer};

use crate::common::{Scratch, alone, await_readable};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let scratch = Scratch::new();
    let path = scratch.file("one/two");
    private_dir(&path).unwrap();
    assert_eq!((mode(&path), mode(&scratch.file("one"))), (0o700, 0o700));
    private_dir(&path).unwrap();
}

#[test]
fn a_directory_open_to_others_is_refused_with_the_way_out() {
    let scratch = Scratch::new();
    let path = scratch.file("open");
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
fn what_is_not_our_own_directory_is_refused() {
    let scratch = Scratch::new();
    fs::write(scratch.file("file"), "").unwrap();
    assert!(matches!(private_dir(&scratch.file("file")), Err(DirError::NotDirectory(_))));

    private_dir(&scratch.file("real")).unwrap();
    symlink(scratch.file("real"), scratch.file("link")).unwrap();
    for link in ["link", "link/", "link/."] {
        assert!(matches!(private_dir(&scratch.file(link)), Err(DirError::Link(_))), "{link}");
    }
    symlink("nowhere", scratch.file("dangling")).unwrap();
    assert!(matches!(private_dir(&scratch.file("dangling")), Err(DirError::Link(_))));
    assert!(matches!(private_dir(Path::new("/proc/no/such")), Err(DirError::Make { .. })));

    if rustix::process::geteuid().is_root() {
        private_dir(&scratch.file("theirs")).unwrap();
        chown(scratch.file("theirs"), Some(12345), None).unwrap();
        let refused = private_dir(&scratch.file("theirs"));
        assert!(matches!(refused, Err(DirError::Owner { owner: 12345, me: 0, .. })), "{refused:?}");
    }
}

/// Sends a word from a client to a listener on this path and looks who sent it.
fn talk(dir: &Path) {
    let listener = listen(dir, "sock").unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let mut client = connect(dir, "sock").unwrap();
    client.write_all(b"word").unwrap();
    drop(client);
    await_readable(listener.as_fd());
    let (mut stream, _) = listener.accept().unwrap();
    let me = Peer { uid: rustix::process::geteuid().as_raw(), pid: std::process::id() };
    assert_eq!(peer(&stream).unwrap(), me);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "word");
}

#[test]
fn a_socket_works_at_a_path_of_any_length() {
    let scratch = Scratch::new();
    talk(&scratch.0);
    // Around the limit of an address, where being off by one would show, and far beyond.
    for length in [90, 101, 102, 103, 104, 300, 3000] {
        let mut path = scratch.0.clone();
        while path.as_os_str().len() + 1 < length {
            let rest = length - path.as_os_str().len() - 1;
            path.push("d".repeat(rest.min(200)));
        }
        fs::create_dir_all(&path).unwrap();
        talk(&path);
    }
}

#[test]
fn a_socket_is_for_its_owner_whatever_the_umask() {
    let _turn = alone();
    let scratch = Scratch::new();
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let listener = listen(&scratch.0, "sock");
    rustix::process::umask(before);
    drop(listener.unwrap());
    assert_eq!(mode(&scratch.file("sock")), 0o600);
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let scratch = Scratch::new();
    drop(listen(&scratch.0, "sock").unwrap());
    assert_eq!(connect(&scratch.0, "sock").unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    talk(&scratch.0);

    let file: PathBuf = scratch.file("file");
    fs::write(&file, "precious").unwrap();
    assert_eq!(listen(&scratch.0, "file").unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
}

#[test]
fn hundreds_who_come_at_once_wait_for_their_turn() {
    const MANY: usize = 300;
    let allowed = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if allowed.trim().parse::<usize>().unwrap() < MANY {
        eprintln!("SKIPPED: the kernel lets {} wait", allowed.trim());
        return;
    }
    let scratch = Scratch::new();
    let listener = listen(&scratch.0, "sock").unwrap();
    // Nobody accepts yet.
    let waiting: Vec<_> = (0..MANY).map(|_| connect(&scratch.0, "sock").unwrap()).collect();
    for _ in &waiting {
        listener.accept().unwrap();
    }
}
