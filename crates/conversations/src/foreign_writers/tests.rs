//! Tests of lines for people. Tests that need processes are in `tests/suite/writers.rs`.

use super::*;

fn writer() -> ForeignWriter {
    ForeignWriter {
        kind: "claude".to_owned(),
        conversation_id: "id".to_owned(),
        identity: ProcessIdentity { pid: 4711, start_ticks: 1, boot: String::new() },
        // 2026-11-16 10:02 UTC.
        since_ms: 1_794_823_320_000,
        cwd: Some("/dir".into()),
        terminal: Some("/dev/pts/3".into()),
        command: "claude --resume id".to_owned(),
        others: 0,
        evidence: WriterEvidence::CommandLine,
    }
}

#[test]
fn a_writer_fits_on_a_line() {
    let line = |writer: &ForeignWriter, later_ms: u64| {
        writer.line_at(writer.since_ms + later_ms, &jiff::tz::TimeZone::UTC)
    };
    assert_eq!(line(&writer(), 185_000), "claude, pid 4711, since 10:02 (3 m), in /dir, on /dev/pts/3");
    let hidden = ForeignWriter { cwd: None, terminal: None, others: 2, ..writer() };
    assert_eq!(line(&hidden, 5_000), "claude, pid 4711, since 10:02 (5 s), with 2 other conversations");
    let old = ForeignWriter { terminal: None, others: 1, ..writer() };
    assert_eq!(
        line(&old, 49 * 3_600_000),
        "claude, pid 4711, since 2026-11-16 10:02 (2 d), in /dir, with another conversation"
    );
}

#[test]
fn the_strongest_sign_of_a_process_is_the_one_that_is_told() {
    // A process that is neither ours nor gone.
    let identity =
        ProcessIdentity::of(rustix::process::getppid().unwrap().as_raw_pid().cast_unsigned()).unwrap();
    let told = |signs: &[WriterEvidence]| {
        let found = signs.iter().map(|sign| (identity.clone(), sign.clone())).collect();
        let told = writers("codex", "id", found, |_| false);
        told.into_iter().map(|writer| writer.evidence).collect::<Vec<_>>()
    };
    let lock = WriterEvidence::Lock { file: "/lock".into() };
    let registry = WriterEvidence::Registry { file: "/list".into() };
    let child = WriterEvidence::Child { pid: 1 };
    assert_eq!(told(&[WriterEvidence::CommandLine, registry.clone(), lock.clone(), child.clone()]), [lock]);
    assert_eq!(told(&[child.clone(), WriterEvidence::CommandLine, registry.clone()]), [registry]);
    assert_eq!(told(&[WriterEvidence::CommandLine, child.clone()]), [child]);
    assert_eq!(told(&[]), []);
}
