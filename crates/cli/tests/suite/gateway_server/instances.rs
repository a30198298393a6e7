//! E10: a second gateway of one state directory gives way to the first one, and names it.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use crate::gateway_server::lab;

#[test]
fn e10_a_second_gateway_of_one_state_directory_yields_and_names_the_first() {
    let lab = lab();
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0"]);
    let id = lab.start(&["hang"]);
    let second = lab.berth(["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!((second.code, second.out.as_str()), (4, ""), "{second:?}");
    let first = format!("pid {}, since 20", gateway.pid());
    assert!(second.err.contains(&first), "{second:?}");
    let address = gateway.address.clone().expect("an address");
    assert!(
        second.err.contains("hint: use the running gateway (unix:") && second.err.contains(&address),
        "{second:?}"
    );
    // The first one was not disturbed, and its socket is still its own.
    assert_eq!(gateway.get(&format!("/v1/sessions/{id}")).ok()["id"], id.as_str());
    assert_eq!(gateway.ask_tcp("GET", "/healthz", &[], None).ok()["status"], "ok");
}

#[test]
fn e10_gateways_of_two_state_directories_have_nothing_to_do_with_each_other() {
    let (one, two) = (lab(), lab());
    let mut first = one.serve();
    let second = two.serve();
    let id = two.start_with(&["--name", "kept"], &["hang"]);
    let before = two.show("kept");
    for _ in 0..2 {
        first.kill();
        first = one.serve();
        assert_eq!(first.get("/v1/sessions").ok()["sessions"].as_array().map(Vec::len), Some(0));
    }
    assert_eq!(second.get("/v1/sessions/kept").ok()["id"], id.as_str());
    let after = two.show("kept");
    assert_eq!((&before["pid"], &before["keeper_pid"]), (&after["pid"], &after["keeper_pid"]));
}

#[test]
fn a_socket_that_a_killed_gateway_left_is_replaced_and_its_lock_file_stays() {
    let lab = lab();
    let mut gateway = lab.serve();
    let socket = lab.home().join("gateway.sock");
    let mode = std::fs::metadata(&socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    gateway.kill();
    let lock = || {
        std::os::unix::fs::MetadataExt::ino(
            &std::fs::metadata(lab.home().join("gateway.lock")).expect("a lock"),
        )
    };
    let before = lock();
    assert!(std::fs::metadata(&socket).expect("left over").file_type().is_socket());
    let gateway = lab.serve();
    assert_eq!(gateway.get("/healthz").ok()["status"], "ok");
    assert_eq!(lock(), before);
    drop(gateway);
    // A file that is not a socket is not ours to take away.
    std::fs::remove_file(&socket).expect("our own");
    std::fs::write(&socket, "precious").expect("a file");
    let refused = lab.berth(["serve"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("gateway.sock"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&socket).expect("untouched"), "precious");
}

#[test]
fn two_gateways_that_start_at_the_same_moment_are_one() {
    let lab = lab();
    lab.ok(["ls"]);
    let start = || {
        lab.command(["serve"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
    };
    let mut both: Vec<_> = (0..4).map(|_| start().expect("berth can be started")).collect();
    // The instance that serves prints its address; one that does not serve ends without a word on standard output.
    let mut serving = Vec::new();
    let mut codes = Vec::new();
    for mut child in both.drain(..) {
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("a line, or the end");
        if line.is_empty() { codes.push(child.wait().expect("it ended").code()) } else { serving.push(child) }
    }
    for child in &mut serving {
        child.kill().and_then(|()| child.wait().map(drop)).expect("our own child");
    }
    assert_eq!((serving.len(), codes), (1, vec![Some(4); 3]));
}
