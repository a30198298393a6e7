//! Tests against recorded answers of real managers and tools.

mod captured;

use std::io::{Read, Write};
use std::net::Shutdown;

use super::*;
use captured::{BUSCTL_HELLO, BUSCTL_LINGER, BUSCTL_START, EXISTS, GREETING, NOBODY, NOT_LINGERING, STARTED};

const OURS: &[u8] = b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n";

/// Runs `client` against a peer that sends `words`, independent of what it receives. Returns the bytes it received.
fn talk<T>(words: &[&[u8]], client: impl FnOnce(UnixStream) -> T) -> (T, Vec<u8>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    words.iter().for_each(|words| theirs.write_all(words).unwrap());
    let result = client(ours);
    let mut heard = Vec::new();
    theirs.shutdown(Shutdown::Write).unwrap();
    theirs.read_to_end(&mut heard).unwrap();
    (result, heard)
}

fn greeting() -> &'static [u8] {
    // We offer no descriptors, so the peer does not say this to us.
    GREETING.strip_suffix(b"AGREE_UNIX_FD\r\n").unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn start(words: &[&[u8]], name: &str) -> (Result<String, DbusCallError>, Vec<u8>) {
    talk(words, |stream| {
        SystemdManager::over(stream, "app.slice", soon())?.start_unit(517, name, "berth session s1")
    })
}

fn linger(words: &[&[u8]], uid: u32) -> (Result<bool, DbusCallError>, Vec<u8>) {
    talk(words, |stream| {
        answer_of_logind(&mut DbusConnection::open(stream, soon())?, uid, LogindProperty::Linger)
    })
}

#[test]
fn we_ask_for_a_scope_as_busctl_does() {
    let (_, heard) = start(&[greeting(), STARTED], "berth-s1-4242.scope");
    let mut asked = heard.strip_prefix(OURS).unwrap().to_vec();
    // Busctl had said hello before; a manager's own socket wants no hello.
    assert_eq!(asked[8..12], [1, 0, 0, 0]);
    asked[8] = 2;
    assert_eq!(asked, BUSCTL_START);
}

#[test]
fn the_end_of_our_job_is_waited_for_among_all_that_a_manager_says() {
    let (result, _) = start(&[greeting(), STARTED], "berth-s1-4242.scope");
    assert_eq!(result.unwrap(), "done");
    let (result, _) = talk(&[greeting(), STARTED], |stream| {
        let until = Instant::now() + Duration::from_millis(50);
        SystemdManager::over(stream, "app.slice", until)?.start_unit(1, "berth-other-1.scope", "")
    });
    assert_eq!(result.unwrap_err().to_string(), "no answer in time");
}

#[test]
fn a_refusal_is_told_in_the_words_of_the_manager() {
    let (result, _) = start(&[greeting(), EXISTS], "berth-s1-4243.scope");
    let why = "Unit berth-s1-4243.scope was already loaded or has a fragment file.";
    assert!(matches!(&result, Err(DbusCallError::Refused(text)) if text == why), "{result:?}");
    let (result, _) = start(&[b"REJECTED EXTERNAL\r\n"], "x");
    assert_eq!(result.unwrap_err().to_string(), "the bus rejected the connection: \"REJECTED EXTERNAL\"");
}

#[test]
fn a_success_answer_does_not_count_if_the_process_is_elsewhere() {
    let (result, _) = talk(&[greeting(), STARTED], |stream| {
        SystemdManager::over(stream, "app.slice", soon()).unwrap().make_scope(4242, "s1", "")
    });
    let told = "systemd did not make the scope berth-s1-4242.scope: the process did not arrive in it";
    assert_eq!(result.unwrap_err(), told);
}

#[test]
fn logind_is_asked_as_busctl_asks_it() {
    let (result, heard) = linger(&[greeting(), NOT_LINGERING], 1000);
    assert!(!result.unwrap());
    assert_eq!(heard, [OURS, BUSCTL_HELLO, BUSCTL_LINGER].concat());
    let mut lingering = NOT_LINGERING.to_vec();
    let flag = lingering.len() - 4;
    lingering[flag] = 1;
    assert!(linger(&[greeting(), &lingering], 1000).0.unwrap());
    assert!(!linger(&[greeting(), NOBODY], 1001).0.unwrap());
}

#[test]
fn a_conversation_cut_anywhere_or_spoiled_is_an_error_and_no_panic() {
    let whole = [greeting(), STARTED].concat();
    let hear = |bytes: &[u8]| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        SystemdManager::over(ours, "app.slice", soon())?.start_unit(517, "berth-s1-4242.scope", "")
    };
    assert_eq!(hear(&whole).unwrap(), "done");
    for end in 0..whole.len() {
        assert!(hear(&whole[..end]).is_err(), "cut at {end}");
    }
    for at in greeting().len()..whole.len() {
        for bad in [0, 0x7f, 0xff] {
            let mut spoiled = whole.clone();
            spoiled[at] = bad;
            let _ = hear(&spoiled);
        }
    }
}

#[test]
fn a_scope_is_wanted_only_where_it_lasts_longer() {
    let says = |linger, kills| {
        move |question| match question {
            LogindProperty::Linger => Ok(linger),
            LogindProperty::KillUserProcesses => Ok(kills),
        }
    };
    let login = "0::/user.slice/user-7.slice/session-3.scope\n";
    let service = "0::/system.slice/ci.service\n";
    let of_another = "0::/user.slice/user-0.slice/session-3.scope\n";
    let in_manager = "0::/user.slice/user-7.slice/user@7.service/app.slice/t.service\n";

    let unasked = |_| -> Result<bool, String> { panic!("no need to ask") };
    assert_eq!(outlives(in_manager, 7, unasked), Ok(()));
    for place in [login, service, of_another] {
        assert_eq!(outlives(place, 7, says(true, false)), Ok(()));
        assert!(outlives(place, 7, says(false, false)).is_err());
    }
    assert_eq!(outlives(login, 7, says(false, true)), Ok(()));
    assert!(outlives(service, 7, says(false, true)).is_err());
    assert!(outlives(of_another, 7, says(false, true)).is_err(), "root's logins are spared");
    assert_eq!(outlives(login, 7, |_| Err("gone".to_owned())), Err("gone".to_owned()));
}
