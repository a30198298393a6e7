//! Ending a session: the processes that are left, and how long it takes.
//!
//! Promise: each holder ends the same tree with the command its users type; processes that live on after a patient wait
//! are counted, then killed by us.
//! Start with [`measure`].

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::competitors::SessionManager;
use crate::measurement::{BenchSettings, BySessionManager, median};
use crate::process::BenchProcess;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::MeasuredSamples;
use crate::workspace::{self, BenchEnvironment, PATIENCE};

/// The children of the torture tree: their kinds, and how the fake agent makes them.
const KINDS: [(&str, &str); 6] = [
    ("child", "hang"),
    ("setsid", "setsid hang"),
    ("daemon", "daemonise hang"),
    ("env -i", "setsid env-i hang"),
    ("deaf", "ignore:TERM,HUP,INT hang"),
    ("deaf, setsid, env -i, closed", "ignore:TERM,HUP,INT setsid close env-i ignore:TERM,HUP,INT hang"),
];
/// How long after the command has returned a process may take to go.
const AFTERWARDS: Duration = Duration::from_secs(8);
const CHILDREN: usize = 100;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let holders = ["berth", "tmux", "screen", "dtach", "shpool", "pueue"];
    let mut stage = bench.stage("i", &holders)?;
    let rounds = bench.pick(15, 2);
    let mut left = BySessionManager::<Vec<&'static str>>::new();
    stage.each(|lab, holder| {
        left.insert(holder.name(), torture(lab, holder)?);
        Ok(())
    });
    let (mut gone, mut stayed) =
        (BySessionManager::<MeasuredSamples>::new(), BySessionManager::<usize>::new());
    for _ in 0..rounds {
        stage.each(|lab, holder| {
            // A holder that leaves them alive once does so every time, and costs the whole wait.
            if stayed.get(holder.name()).is_some_and(|count| *count > 0) {
                return Ok(());
            }
            match end_many(lab, holder)? {
                EndResult::After(took) => gone.entry(holder.name()).or_default().push_ms(took),
                EndResult::Left(count) => *stayed.entry(holder.name()).or_default() = count,
            }
            Ok(())
        });
    }
    let mut table = ReportTable::new(&[
        "holder",
        "of 6 kinds left",
        "which",
        "of 100 setsid'ed left",
        "until all are gone p50",
    ]);
    for name in stage.names() {
        let kinds = left.get(name).cloned().unwrap_or_default();
        table.row([
            name.to_owned(),
            kinds.len().to_string(),
            if kinds.is_empty() { "none".to_owned() } else { kinds.join(" · ") },
            stayed.get(name).unwrap_or(&0).to_string(),
            cell(median(&gone, name), " ms"),
        ]);
    }
    let kinds = left.get("berth").map(|kinds| kinds.len() as f64);
    Ok(stage.close(ReportSection {
        title: "i. Ending a session, and what is left of it",
        method: format!(
            "A session whose program has six children that run away in six ways, ended as its users would (berth \
             stop, tmux kill-session, screen -X quit, shpool kill, pueue kill, SIGTERM to dtach's master, which has \
             no command for it), then {AFTERWARDS:?} of patience. And one with {CHILDREN} children in sessions of \
             their own, {rounds} rounds, from spawning that command until the last process is gone."
        ),
        table,
        verdicts: vec![
            TargetVerdict::new("torture tree: left by berth", TargetLimit::AtMost(0.0), "", kinds),
            TargetVerdict::new("end 100 setsid'ed children", TargetLimit::AtMost(50.0), " ms", median(&gone, "berth")),
        ],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// The kinds of processes that outlive their session.
fn torture(lab: &mut BenchEnvironment, holder: &dyn SessionManager) -> Result<Vec<&'static str>> {
    let files: Vec<PathBuf> = KINDS.iter().map(|_| lab.fresh_path()).collect();
    let children = KINDS.iter().zip(&files);
    let children = children.map(|((_, steps), file)| format!("child [ pidfile:{} {steps} ]", file.display()));
    let script = format!("{} REPORT hang", children.collect::<Vec<_>>().join(" "));
    let session = lab.start(holder, &script)?.session;
    lab.report_of(session.agent, 2, PATIENCE)?.context("the tree did not grow")?;
    let born: Vec<BenchProcess> = files.iter().map(last_pid).collect::<Result<_>>()?;
    if let Some(dead) = born.iter().position(|process| !process.is_alive()) {
        bail!("the {} of the tree is dead already", KINDS[dead].0);
    }
    end(lab, holder, &session)?;
    wait(&born, Instant::now() + AFTERWARDS);
    let left = KINDS.iter().zip(&born).filter(|(_, process)| process.is_alive());
    let left = left.map(|((name, _), _)| *name).collect();
    clear(&born, session.agent);
    Ok(left)
}

enum EndResult {
    After(Duration),
    Left(usize),
}

fn end_many(lab: &mut BenchEnvironment, holder: &dyn SessionManager) -> Result<EndResult> {
    let file = lab.fresh_path();
    let script = format!("pidfile:{} loop:{CHILDREN} [ child [ setsid hang ] ] REPORT hang", file.display());
    let session = lab.start(holder, &script)?.session;
    lab.report_of(session.agent, 2, PATIENCE)?.context("the tree did not grow")?;
    let born = pids(&file)?;
    let began_at = Instant::now();
    end(lab, holder, &session)?;
    wait(&born, Instant::now() + AFTERWARDS);
    let took = began_at.elapsed();
    let left = born.iter().filter(|process| process.is_alive()).count();
    clear(&born, session.agent);
    Ok(if left == 0 { EndResult::After(took) } else { EndResult::Left(left) })
}

fn end(lab: &BenchEnvironment, holder: &dyn SessionManager, session: &workspace::BenchSession) -> Result<()> {
    let mut command: Command = holder.end(lab, session);
    let status = command.status().with_context(|| format!("end a session of {}", holder.name()))?;
    if status.success() { Ok(()) } else { bail!("{} could not end its session ({status})", holder.name()) }
}

fn wait(processes: &[BenchProcess], until: Instant) {
    while processes.iter().any(|process| process.is_alive()) && Instant::now() < until {
        workspace::reap();
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Kills the processes that were left.
fn clear(processes: &[BenchProcess], agent: BenchProcess) {
    let all = || processes.iter().chain([&agent]).filter(|process| process.is_alive());
    while all().next().is_some() {
        all().for_each(|process| process.signal(rustix::process::Signal::KILL));
        workspace::reap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn pids(file: &PathBuf) -> Result<Vec<BenchProcess>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    text.lines().map(|line| Ok(BenchProcess(line.parse().context("understand a pid")?))).collect()
}

/// The remaining process of a child that forked and went on as its own child.
fn last_pid(file: &PathBuf) -> Result<BenchProcess> {
    pids(file)?.pop().context("a child without a pid")
}
