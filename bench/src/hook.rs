//! A hook: the time it takes an agent to tell its keeper something.
//!
//! Start with [`measure`]. The calls are made inside of a session, by [`call`], as its agent would.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;

use crate::competitors::{BERTH_BEFORE, CurrentBerth};
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::workspace::BenchEnvironment;

/// The hidden verb of the bench that calls hooks.
pub(crate) const VERB: &str = "call-hooks";
/// In how many turns an earlier build is measured beside this one.
const TURNS: usize = 4;
/// The event of the agent for which the user has to wait.
const EVENT: &str = r#"{"session_id":"11111111-2222-4333-8444-555555555555","cwd":"/tmp","hook_event_name":"UserPromptSubmit","prompt":"go on"}"#;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("v", &["berth"])?;
    let rounds: usize = bench.pick(400, 20);
    let (mut hooks, mut trues, mut trips) =
        (MeasuredSamples::default(), MeasuredSamples::default(), MeasuredSamples::default());
    let mut hooks_before = MeasuredSamples::default();
    // In short turns, so that other work of the machine meets both.
    for _ in 0..TURNS {
        stage.each(|lab, _| {
            let berth = CurrentBerth { program: bench.programs["berth"].clone() };
            run_agent(lab, &berth, "berth", rounds / TURNS, [&mut hooks, &mut trues, &mut trips])?;
            if let Some(program) = bench.programs.get(BERTH_BEFORE) {
                let (mut trues, mut trips) = (MeasuredSamples::default(), MeasuredSamples::default());
                let berth = CurrentBerth { program: program.clone() };
                let samples = [&mut hooks_before, &mut trues, &mut trips];
                run_agent(lab, &berth, "before", rounds / TURNS, samples)?;
            }
            Ok(())
        });
    }
    let mut table = ReportTable::new(&["what", "p50", "p99"]);
    let row = |name: &str, times: &MeasuredSamples| {
        [name.to_owned(), cell(times.median(), " ms"), cell(times.quantile(0.99), " ms")]
    };
    table.row(row("berth hook, the keeper told", &hooks));
    if bench.programs.contains_key(BERTH_BEFORE) {
        table.row(row("the same, before", &hooks_before));
    }
    table.row(row("true, started the same way", &trues));
    table.row(row("one question to the keeper", &trips));
    let base = trues.median().zip(trips.median()).map(|(one, other)| one + other);
    Ok(stage.close(ReportSection {
        title: "v. Hooks",
        method: format!(
            "A prompt's hook as Claude Code calls it (by `sh -c`, the event on standard input), by the agent of a session \
             whose keeper believes it and records what it tells, {rounds} times, in turn with `true` started the same \
             way and with one question to the session's keeper on a new connection."
        ),
        table,
        verdicts: [
            TargetVerdict::new("hook, end to end", TargetLimit::AtMost(10.0), " ms", hooks.median()),
            TargetVerdict::ratio("hook ÷ (true + one round trip)", TargetLimit::AtMost(1.5), ratio(hooks.median(), base)),
        ]
        .into_iter()
        .chain(ratio(hooks.median(), hooks_before.median()).map(|compared| {
            TargetVerdict::ratio("hook: berth ÷ before", TargetLimit::AtMost(1.05), Some(compared))
        }))
        .collect(),
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// Has one session's agent call hooks, and adds the times that it prints: of hooks, of `true`, of round trips.
fn run_agent(
    lab: &BenchEnvironment,
    berth: &CurrentBerth,
    home: &str,
    rounds: usize,
    samples: [&mut MeasuredSamples; 3],
) -> Result<()> {
    let [hooks, trues, trips] = samples;
    let event = lab.dir().join("event.json");
    std::fs::write(&event, EVENT).context("write an event")?;
    // The keeper believes only an agent that has a terminal and a conversation.
    let us = std::env::current_exe().context("find this program")?;
    let tui = [us.as_os_str(), VERB.as_ref(), berth.program.as_os_str(), event.as_os_str()];
    let mut tui = tui.map(|word| word.to_string_lossy().into_owned()).to_vec();
    tui.push(rounds.to_string());
    let config = lab.dir().join("config.toml");
    let text = format!(
        "[agents.bench]\ndriver = \"claude\"\nconversation_kind = \"claude\"\ncommand = [\"false\"]\ntui = {tui:?}\n"
    );
    std::fs::write(&config, text).context("write a config file")?;
    let mut command = berth.command(lab);
    command.env("BERTH_HOME", lab.dir().join(home));
    command.env("BERTH_CONFIG", &config).env("CLAUDE_CONFIG_DIR", lab.dir().join("claude"));
    command.args(["run", "--agent", "bench", "--tui"]);
    let said = command.stdout(Stdio::piped()).output().context("run a session that calls hooks")?;
    if !said.status.success() {
        bail!("the hooks could not be called: {}", String::from_utf8_lossy(&said.stdout));
    }
    for line in String::from_utf8_lossy(&said.stdout).lines() {
        let mut words = line.split_whitespace();
        let samples = match words.next() {
            Some("hook") => &mut *hooks,
            Some("true") => &mut *trues,
            Some("trip") => &mut *trips,
            Some(_) | None => continue,
        };
        let nanos = words.next().context("a time")?.parse().context("a time")?;
        samples.push_ms(Duration::from_nanos(nanos));
    }
    Ok(())
}

/// Calls hooks in the place of an agent, and prints how long each took, in nanoseconds.
pub(crate) fn call(berth: &Path, event: &Path, rounds: &str) -> Result<()> {
    let rounds: usize = rounds.parse().context("how often")?;
    let [home, session] = ["BERTH_HOME", "BERTH_SESSION"].map(std::env::var);
    let home = PathBuf::from(home?);
    let dir = home.join("sessions").join(session?);
    let shell = |line: &str| -> Result<Duration> {
        let event = File::open(event).context("open the event")?;
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(event).stdout(Stdio::piped());
        let began_at = Instant::now();
        let said = command.output().context("run a shell")?;
        let took = began_at.elapsed();
        if !said.status.success() || !said.stdout.is_empty() {
            bail!("`{line}` said {:?} ({})", String::from_utf8_lossy(&said.stdout), said.status);
        }
        Ok(took)
    };
    // As the plugin that a run carries has it.
    let hook = format!(
        "b='{}'; [ -x \"$b\" ] || b=$(command -v berth) || exit 0; exec \"$b\" hook claude --home '{}'",
        berth.display(),
        home.display()
    );
    // Run by its path, as the hook is: there is no search through PATH.
    let idle = format!("exec '{}'", crate::competitors::find("true").context("find `true`")?.display());
    for _ in 0..rounds {
        println!("hook {}", shell(&hook)?.as_nanos());
        println!("true {}", shell(&idle)?.as_nanos());
        let began_at = Instant::now();
        let mut keeper = KeeperConnection::open(&dir, "a bench".to_owned()).context("reach the keeper")?;
        keeper.ask(KeeperRequest::Status).map_err(|problem| anyhow::anyhow!(problem.what))?;
        println!("trip {}", began_at.elapsed().as_nanos());
    }
    Ok(())
}
