//! How fast output is taken, and the CPU it uses.
//!
//! Promise: the clock runs from letting the program write until its last write has returned; the CPU is that of the
//! process holding the terminal, counted until it has come to rest.
//! Start with [`measure`].

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use crate::competitors::BERTH_BEFORE;
use crate::competitors::SessionManager;
use crate::measurement::{BenchSettings, BySessionManager, MeasurementSetup, against, median};
use crate::process::BenchProcess;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::terminal::BenchTerminal;
use crate::workspace::{BenchEnvironment, PATIENCE};

/// The name of the bench's own reader in the tables.
const BARE: &str = "bare reader";
/// With its client stopped, a holder that has not come this far stands still.
const STANDSTILL: Duration = Duration::from_secs(20);
/// How long a holder may go on working after the last write.
const REST: Duration = Duration::from_secs(10);

/// The kind of output, and the client that is attached.
#[derive(Clone, Copy, PartialEq)]
enum OutputCase {
    Text,
    Colour,
    /// Text, with a client attached that does not read.
    Stopped,
}

/// Measurements of one case.
#[derive(Default)]
struct OutputCaseResult {
    mb_per_s: BySessionManager<MeasuredSamples>,
    cpu_s: BySessionManager<MeasuredSamples>,
    stands_still: BySessionManager<()>,
}

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage =
        bench.stage("d", &["berth", BERTH_BEFORE, "dtach", "abduco", "tmux", "screen", "shpool"])?;
    let size_mb: u64 = bench.pick(200, 20);
    let rounds = bench.pick(5, 1);
    let [mut text, mut colour, mut stopped] = [(); 3].map(|()| OutputCaseResult::default());
    for _ in 0..rounds {
        for (case, taken) in [
            (OutputCase::Text, &mut text),
            (OutputCase::Colour, &mut colour),
            (OutputCase::Stopped, &mut stopped),
        ] {
            round(&mut stage, case, size_mb, taken)?;
        }
    }
    let head = [
        "holder",
        "text MB/s",
        "its CPU",
        "colour MB/s",
        "its CPU",
        "stopped client MB/s",
        "berth ÷ it (text)",
    ];
    let mut table = ReportTable::new(&head);
    for name in [vec![BARE], stage.names()].concat() {
        let standing = stopped.stands_still.contains_key(name).then(|| "stands still".to_owned());
        let ratio = if name == "berth" { String::new() } else { cell(against(&text.mb_per_s, name), "×") };
        table.row([
            name.to_owned(),
            cell(median(&text.mb_per_s, name), ""),
            cell(median(&text.cpu_s, name), " s"),
            cell(median(&colour.mb_per_s, name), ""),
            cell(median(&colour.cpu_s, name), " s"),
            standing.unwrap_or_else(|| cell(median(&stopped.mb_per_s, name), "")),
            ratio,
        ]);
    }
    let speed = |taken: &OutputCaseResult, peer: &str| against(&taken.mb_per_s, peer);
    let stopped_speed = ratio(median(&stopped.mb_per_s, "berth"), median(&text.mb_per_s, "berth"));
    let stopped_speed = if stopped.stands_still.contains_key("berth") { Some(0.0) } else { stopped_speed };
    Ok(stage.close(ReportSection {
        title: "d. Output without a client",
        method: format!(
            "{size_mb} MB written by the program in the session, {rounds} rounds, the holders in turn (shpool: a tenth \
             of it, CPU scaled up). MB/s until the last write returned. CPU seconds of the process that holds the \
             terminal. Stopped client: one is attached and stopped with SIGSTOP before the text is written; a holder \
             that has not taken it all after {STANDSTILL:?} stands still. The bare reader is the bench reading the \
             pty and throwing the bytes away."
        ),
        table,
        verdicts: [

            TargetVerdict::ratio("output, text: berth ÷ bare reader", TargetLimit::AtLeast(0.9), speed(&text, BARE)),
            TargetVerdict::ratio("output, text: berth ÷ tmux", TargetLimit::AtLeast(2.0), speed(&text, "tmux")),
            TargetVerdict::ratio("output, text: CPU ÷ tmux's", TargetLimit::AtMost(0.3), against(&text.cpu_s, "tmux")),
            TargetVerdict::ratio("output, colour: berth ÷ bare reader", TargetLimit::AtLeast(0.9), speed(&colour, BARE)),
            TargetVerdict::ratio("output, colour: berth ÷ tmux", TargetLimit::AtLeast(2.0), speed(&colour, "tmux")),
            TargetVerdict::ratio("output, colour: CPU ÷ tmux's", TargetLimit::AtMost(0.3), against(&colour.cpu_s, "tmux")),
            // "No slower" here leaves room for the noise of the machine.
            TargetVerdict::ratio("output, stopped client ÷ no client", TargetLimit::AtLeast(0.95), stopped_speed),
        ]
        .into_iter()
        .chain(against(&text.mb_per_s, BERTH_BEFORE).map(|speed| {
            TargetVerdict::ratio("output, text: berth ÷ before", TargetLimit::AtLeast(0.95), Some(speed))
        }))
        .collect(),
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

fn round(
    stage: &mut MeasurementSetup,
    case: OutputCase,
    size_mb: u64,
    taken: &mut OutputCaseResult,
) -> Result<()> {
    if case != OutputCase::Stopped {
        let (took, cpu) = bare(&mut stage.lab, &script(case, size_mb))?;
        taken.mb_per_s.entry(BARE).or_default().push(size_mb as f64 / took.as_secs_f64());
        taken.cpu_s.entry(BARE).or_default().push(cpu);
    }
    stage.each(|lab, holder| {
        let name = holder.name();
        if taken.stands_still.contains_key(name) {
            return Ok(());
        }
        let share = if name == "shpool" { 10 } else { 1 };
        let part_mb = size_mb / share;
        match held(lab, holder, case, &script(case, part_mb))? {
            Some((took, cpu)) => {
                taken.mb_per_s.entry(name).or_default().push(part_mb as f64 / took.as_secs_f64());
                taken.cpu_s.entry(name).or_default().push(cpu * share as f64);
            }
            None => drop(taken.stands_still.insert(name, ())),
        }
        Ok(())
    });
    Ok(())
}

/// `GO` stands for the file that lets it begin.
fn script(case: OutputCase, size_mb: u64) -> String {
    let flood = if case == OutputCase::Colour { "flood-colour" } else { "flood" };
    format!("wait-file:GO {flood}:{size_mb}M REPORT hang")
}

/// The floor: nothing but a thread that reads.
fn bare(lab: &mut BenchEnvironment, script: &str) -> Result<(Duration, f64)> {
    let go = lab.fresh_path();
    let words = lab.agent(&script.replace("GO", &go.display().to_string()));
    let mut agent = lab.command(Path::new(&words[0]));
    agent.args(&words[1..]);
    let terminal = BenchTerminal::open(&agent, lab.dir())?;
    terminal.go()?;
    lab.report_of(terminal.client(), 1, PATIENCE)?.context("the agent did not run")?;
    let reader = read_away(terminal.screen()?);
    let me = BenchProcess(std::process::id().cast_signed());
    let before = me.cpu_seconds().context("read our own CPU")?;
    let took = flood(lab, terminal.client(), &go, PATIENCE * 6)?.context("the flood did not end")?;
    let cpu = me.cpu_seconds().context("read our own CPU")? - before;
    drop(terminal);
    reader.join().expect("the reader only reads");
    Ok((took, cpu))
}

fn read_away(mut screen: File) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        // The terminal's other side closing is an error here, and the end.
        while screen.read(&mut buffer).is_ok_and(|count| count > 0) {}
    })
}

/// Like [`bare`] through a holder; `None` when the holder stands still.
fn held(
    lab: &mut BenchEnvironment,
    holder: &dyn SessionManager,
    case: OutputCase,
    script: &str,
) -> Result<Option<(Duration, f64)>> {
    let go = lab.fresh_path();
    let session = lab.start(holder, &script.replace("GO", &go.display().to_string()))?.session;
    let mut client = None;
    if case == OutputCase::Stopped {
        let mut terminal = BenchTerminal::open(&holder.attach(lab, &session.name), lab.dir())?;
        terminal.go()?;
        terminal.settle(Duration::from_millis(300), PATIENCE)?;
        terminal.client().signal(Signal::STOP);
        client = Some(terminal);
    }
    let before = session.holder.cpu_seconds().context("read the holder's CPU")?;
    let patience = if case == OutputCase::Stopped { STANDSTILL } else { PATIENCE * 6 };
    let taken = match flood(lab, session.agent, &go, patience)? {
        Some(took) => Some((took, at_rest(session.holder)? - before)),
        None => None,
    };
    drop(client);
    lab.stop(holder, &[session])?;
    Ok(taken)
}

/// Lets the agent write and waits until it has; `None` when it has not in time.
fn flood(
    lab: &mut BenchEnvironment,
    agent: BenchProcess,
    go: &Path,
    patience: Duration,
) -> Result<Option<Duration>> {
    let began_at = Instant::now();
    std::fs::write(go, "").context("begin the flood")?;
    Ok(lab.report_of(agent, 2, patience)?.map(|at| at - began_at))
}

/// CPU of a holder once it has finished what it was given. Some never rest.
fn at_rest(holder: BenchProcess) -> Result<f64> {
    let deadline = Instant::now() + REST;
    let mut last = holder.cpu_seconds().context("read the holder's CPU")?;
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = holder.cpu_seconds().context("read the holder's CPU")?;
        if now == last || Instant::now() > deadline {
            return Ok(now);
        }
        last = now;
    }
}
