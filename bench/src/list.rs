//! Listing sessions, few and many, and the time of a command that does nothing.
//!
//! Promise: every list that is timed was checked before and has the rows it should have. Archived sessions are made
//! once and copied: a session that is over is files and nothing else.
//! Start with [`measure`].

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::competitors::CurrentBerth;
use crate::measurement::{BenchSettings, BySessionManager, median};
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::workspace::{BenchEnvironment, PATIENCE};

/// How many live sessions are listed beside tmux; later one session in so many lives.
const LIVE: usize = 10;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let rounds = bench.pick(40, 10);
    let mut stage = bench.stage("g", &["berth", "tmux"])?;
    let programs = bench.programs.clone();
    let program =
        |name: &str| programs.get(name).cloned().with_context(|| format!("{name} is not installed"));
    let berth = CurrentBerth { program: program("berth")? };

    // A few that live, beside tmux; then commands that do nothing.
    let (mut live, mut idle) =
        (BySessionManager::<MeasuredSamples>::new(), BySessionManager::<MeasuredSamples>::new());
    let mut running = Vec::new();
    stage.each(|lab, holder| {
        for _ in 0..LIVE {
            let started = lab.start(holder, "hang")?;
            if holder.name() == "berth" {
                running.push(started.session);
            }
        }
        Ok(())
    });
    settle(&berth, &stage.lab, &["ls", "--json"], LIVE, LIVE)?;
    for _ in 0..rounds {
        stage.each(|lab, holder| {
            let program = program(holder.name())?;
            let (mut list, mut version) = (lab.command(&program), lab.command(&program));
            if holder.name() == "berth" {
                list = berth.command(lab);
                list.arg("ls");
                version.arg("--version");
            } else {
                list.arg("-S").arg(lab.dir().join("tmux")).arg("ls");
                version.arg("-V");
            }
            live.entry(holder.name()).or_default().push_ms(timed(&mut list)?);
            idle.entry(holder.name()).or_default().push_ms(timed(&mut version)?);
            Ok(())
        });
        let mut nothing = stage.lab.command(Path::new("true"));
        idle.entry("true").or_default().push_ms(timed(&mut nothing)?);
    }

    // Nine of ten sessions have ended and one runs.
    let counts: &[usize] = bench.pick(&[100, 1000], &[100, 200]);
    let mut mixed: Vec<MeasuredSamples> = Vec::new();
    let mut ended = 0;
    for count in counts {
        let wanted = count / LIVE;
        stage.each(|lab, holder| {
            while holder.name() == "berth" && running.len() < wanted {
                running.push(lab.start(holder, "hang")?.session);
            }
            Ok(())
        });
        let lab = &stage.lab;
        while running.len() + ended < *count {
            run(berth.command(lab).args(["run", "-d", "--", "true"]))?;
            ended += 1;
        }
        settle(&berth, lab, &["ls", "--all", "--json"], running.len() + ended, running.len())?;
        mixed.push(times(rounds, || berth.command(lab), &["ls", "--all"])?);
    }
    stage.each(|lab, holder| if holder.name() == "berth" { lab.stop(holder, &running) } else { Ok(()) });

    // A list with many archived sessions.
    let archive: &[usize] = bench.pick(&[1000, 10_000], &[100, 1000]);
    let away = stage.lab.dir().join("away");
    let lab = &stage.lab;
    let in_archive = || {
        let mut command = berth.command(lab);
        command.env("BERTH_HOME", &away);
        command
    };
    run(in_archive().args(["run", "-d", "--", "true"]))?;
    let model = over(&away)?;
    let (mut hidden, mut shown) = (Vec::new(), Vec::new());
    let mut made = 0;
    for count in archive {
        while made < *count {
            put_away(&away, &model, made)?;
            made += 1;
        }
        settle_in(&in_archive, &["ls", "--archived", "--json"], *count, 0)?;
        hidden.push(times(rounds, in_archive, &["ls"])?);
        shown.push(times(rounds, in_archive, &["ls", "--archived"])?);
    }

    let mut table = ReportTable::new(&["list", "p50", "p99", "each"]);
    let mut row = |what: String, times: &MeasuredSamples, count: Option<usize>| {
        let each = times.median().zip(count).map(|(ms, count)| ms * 1e3 / count as f64);
        table.row([what, cell(times.median(), " ms"), cell(times.quantile(0.99), " ms"), cell(each, " µs")]);
    };
    for (holder, times) in &live {
        row(format!("`{holder} ls`, {LIVE} live"), times, Some(LIVE));
    }
    for (count, times) in counts.iter().zip(&mixed) {
        row(format!("`berth ls --all`, {count}, a tenth live"), times, Some(*count));
    }
    for (count, (hidden, shown)) in archive.iter().zip(hidden.iter().zip(&shown)) {
        row(format!("`berth ls`, {count} archived"), hidden, Some(*count));
        row(format!("`berth ls --archived`, {count}"), shown, Some(*count));
    }
    for (name, times) in &idle {
        row(format!("{name}{}", if *name == "true" { "" } else { ", its version" }), times, None);
    }
    let growth = |samples: &[MeasuredSamples], counts: &[usize]| {
        let of = |back: usize| samples.iter().rev().nth(back).and_then(MeasuredSamples::median);
        let steps: Vec<f64> = counts.iter().rev().take(2).map(|count| *count as f64).collect();
        ratio(of(0), of(1)).map(|times| times / (steps[0] / steps[1]))
    };
    let last = |samples: &[MeasuredSamples]| samples.last().and_then(MeasuredSamples::median);
    let most = |counts: &[usize]| counts.last().copied().unwrap_or_default();
    let verdicts = vec![
        TargetVerdict::new(
            format!("ls of {} sessions", most(counts)),
            TargetLimit::AtMost(50.0),
            " ms",
            last(&mixed),
        ),
        TargetVerdict::ratio(
            "ls, growth of time ÷ growth of list",
            TargetLimit::AtMost(1.0),
            growth(&mixed, counts),
        ),
        TargetVerdict::ratio(
            format!("ls of {LIVE} live ÷ tmux ls"),
            TargetLimit::AtMost(2.0),
            ratio(median(&live, "berth"), median(&live, "tmux")),
        ),
        TargetVerdict::new(
            format!("ls beside {} archived", most(archive)),
            TargetLimit::AtMost(150.0),
            " ms",
            last(&hidden),
        ),
        TargetVerdict::ratio(
            "the same, growth of time ÷ growth of archive",
            TargetLimit::AtMost(1.0),
            growth(&hidden, archive),
        ),
        TargetVerdict::new("berth --version", TargetLimit::AtMost(3.0), " ms", median(&idle, "berth")),
    ];
    Ok(stage.close(ReportSection {
        title: "g. Listing sessions",
        method: format!("Each from spawn to exit, {rounds} times, off a terminal."),
        table,
        verdicts,
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// From spawn to exit.
fn timed(command: &mut Command) -> Result<Duration> {
    let began_at = Instant::now();
    run(command)?;
    Ok(began_at.elapsed())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("run {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed ({status})") }
}

fn times(rounds: usize, berth: impl Fn() -> Command, args: &[&str]) -> Result<MeasuredSamples> {
    let mut times = MeasuredSamples::default();
    for _ in 0..rounds {
        times.push_ms(timed(berth().args(args))?);
    }
    Ok(times)
}

/// The status of the only session of a state directory once it is over.
fn over(home: &Path) -> Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sessions = std::fs::read_dir(home.join("sessions")).context("look for the session")?;
        let session = sessions.flatten().next().context("the session is gone")?.path();
        let status = std::fs::read(session.join("status.json")).unwrap_or_default();
        let status: Value = serde_json::from_slice(&status).unwrap_or_default();
        if status["state"] == "stopped" && !session.join("sock").exists() {
            std::fs::remove_dir_all(&session).context("make room for copies")?;
            return Ok(status);
        }
        if Instant::now() > deadline {
            bail!("`true` does not end: {status}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes an archived session out of one that is over.
fn put_away(home: &Path, model: &Value, number: usize) -> Result<()> {
    // Digits are valid characters of an id.
    let id = format!("{number:012}");
    let dir = home.join("sessions").join(&id);
    let mut status = model.clone();
    status["id"] = id.into();
    status["state"] = "archived".into();
    status["archived_at"] = model["ended_at"].clone();
    std::fs::create_dir_all(dir.join("journal")).with_context(|| format!("make {}", dir.display()))?;
    std::fs::write(dir.join("status.json"), status.to_string()).context("write a status cache")
}

/// Waits until the list is up to date: `true` needs a moment to end.
fn settle(
    berth: &CurrentBerth,
    lab: &BenchEnvironment,
    args: &[&str],
    count: usize,
    running: usize,
) -> Result<()> {
    settle_in(&|| berth.command(lab), args, count, running)
}

fn settle_in(berth: &dyn Fn() -> Command, args: &[&str], count: usize, running: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = berth().args(args).stdout(Stdio::piped()).output().context("run berth ls")?;
        let list: Vec<Value> =
            serde_json::from_slice(&output.stdout).context("understand berth ls --json")?;
        let listed = list.iter().filter(|session| session["state"] == "running").count();
        if (list.len(), listed) == (count, running) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the list has {} sessions, {listed} running; wanted {count} and {running}", list.len());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
