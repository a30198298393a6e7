//! The time that berth adds to a turn, compared with driving an agent on one's own pipes.
//!
//! Promise: both sides are given equal prompts, in turn; the agents were started before and are one program with equal
//! flags; a turn is over when the asking client has heard so.
//! Start with [`measure_fake`], then [`measure_claude`].

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use berth_harness::RealAgents;
use serde_json::json;

use crate::competitors::CurrentBerth;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::turns::{BenchKeeperClient, BerthWithAcp, DirectAgent};
use crate::workspace::BenchEnvironment;

/// The prompt; the agent answers with its text at once.
const PROMPT: &str = "hello";
/// As `berth` starts Claude Code.
const CLAUDE_FLAGS: &str = "-p --input-format stream-json --output-format stream-json --verbose \
     --include-partial-messages --replay-user-messages --permission-prompt-tool stdio --session-id";
const CLAUDE_SESSION: &str = "5e551014-0000-4000-8000-00000000be7c";

/// How often a turn has to wait for the disk: accepted, given to the agent, over.
const SYNCS: usize = 3;
/// About what an event of a turn is.
const EVENT_BYTES: usize = 200;

/// Turns of both kinds, and what the disk alone takes for one.
#[derive(Default)]
struct TurnComparison {
    direct: MeasuredSamples,
    through: MeasuredSamples,
    disk: MeasuredSamples,
}

impl TurnComparison {
    fn added(&self) -> Option<f64> {
        Some(self.through.median()? - self.direct.median()?)
    }

    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(&["way", "p50", "p90", "p99", "÷ direct (p50)"]);
        let disk = format!("{SYNCS} bare appends + fdatasync");
        let sides = [
            ("the agent on our own pipes", &self.direct),
            ("through berth", &self.through),
            (&disk, &self.disk),
        ];
        for (way, samples) in sides {
            let numbers = [0.5, 0.9, 0.99].map(|share| cell(samples.quantile(share), " ms"));
            let against = ratio(samples.median(), self.direct.median());
            table.row([vec![way.to_owned()], numbers.to_vec(), vec![cell(against, "×")]].concat());
        }
        table
    }
}

/// Takes turns in turn, each time in another order.
fn alternate(
    rounds: usize,
    warm_up: usize,
    dir: &Path,
    mut direct: impl FnMut(usize) -> Result<()>,
    mut through: impl FnMut() -> Result<()>,
) -> Result<TurnComparison> {
    let mut times = TurnComparison::default();
    let mut bare = File::create(dir.join("bare")).context("create a bare file")?;
    let orders = [[0, 1, 2], [1, 0, 2], [2, 0, 1], [2, 1, 0], [0, 2, 1], [1, 2, 0]];
    for round in 0..warm_up + rounds {
        for side in orders[round % orders.len()] {
            let began_at = Instant::now();
            match side {
                0 => direct(round)?,
                1 => through()?,
                _ => sync(&mut bare).context("append to a bare file")?,
            }
            let took = began_at.elapsed();
            if round >= warm_up {
                let samples = match side {
                    0 => &mut times.direct,
                    1 => &mut times.through,
                    _ => &mut times.disk,
                };
                samples.push_ms(took);
            }
        }
    }
    Ok(times)
}

fn sync(bare: &mut File) -> std::io::Result<()> {
    for _ in 0..SYNCS {
        bare.write_all(&[b'e'; EVENT_BYTES])?;
        bare.sync_data()?;
    }
    Ok(())
}

fn turn(client: &mut BenchKeeperClient) -> Result<()> {
    let turn = client.send(PROMPT)?;
    client.until_done(turn)
}

pub(crate) fn measure_fake(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("m", &["berth"])?;
    let rounds = bench.pick(1000, 50);
    let mut times = TurnComparison::default();
    stage.each(|lab, _| {
        let berth = BerthWithAcp::new(&bench.programs["berth"], lab, None)?;
        let session = lab.start(&berth, "")?.session;
        let mut client = berth.client(&session.name)?;
        let mut agent = DirectAgent::start(lab.command(&bench.fake_agent).arg("acp"))?;
        let conversation = greet(&mut agent, lab.dir())?;
        let direct = |round: usize| {
            // Numbers 0 and 1 were the greeting.
            let id = round + 2;
            let prompt = json!([{"type": "text", "text": PROMPT}]);
            let params = json!({"sessionId": conversation, "prompt": prompt});
            agent.say(&json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}))?;
            let over = agent.until(|line| line["id"] == id && line.get("method").is_none())?;
            if over["result"]["stopReason"] == "end_turn" { Ok(()) } else { bail!("it said {over}") }
        };
        times = alternate(rounds, rounds / 10, lab.dir(), direct, || turn(&mut client))?;
        drop(agent);
        lab.stop(&berth, &[session])
    });
    let added = times.added();
    Ok(stage.close(ReportSection {
        title: "m. What berth adds to a turn, fake agent",
        method: format!(
            "{rounds} turns of each kind, in turn. The fake agent answers at once, over ACP. Directly: from writing \
             the prompt until the response was read. Through berth: from sending the turn on a connection that is \
             open until its end, which is on disk, was heard. It waits for the disk {SYNCS} times on the way, \
             so what that takes on a bare file is measured in turn with both."
        ),
        table: times.table(),
        verdicts: vec![TargetVerdict::new("one turn: berth − direct, p50", TargetLimit::AtMost(5.0), " ms", added)],
        notes: vec![format!("berth adds {} to a turn (difference of the medians).", cell(added, " ms"))],
        problems: Vec::new(),
    }))
}

/// Opens a conversation over ACP and returns its id.
fn greet(agent: &mut DirectAgent, cwd: &Path) -> Result<String> {
    let capabilities = json!({"protocolVersion": 1, "clientCapabilities": {}});
    agent.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": capabilities}))?;
    agent.until(|line| line["id"] == 0)?;
    let params = json!({"cwd": cwd, "mcpServers": []});
    agent.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}))?;
    let made = agent.until(|line| line["id"] == 1)?;
    Ok(made["result"]["sessionId"].as_str().context("a conversation without an id")?.to_owned())
}

pub(crate) fn measure_claude(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("n", &["berth"])?;
    let rounds = bench.pick(200, 10);
    let mut times = TurnComparison::default();
    let mut version = String::new();
    let is_there = RealAgents::are_installed();
    if is_there {
        stage.each(|lab, _| {
            let agents = RealAgents::new(lab.dir());
            version = crate::said(&mut agents.command("claude", ["--version"]), 0);
            times = claude_turns(lab, &bench.programs["berth"], &agents, rounds)?;
            Ok(())
        });
    }
    let added = ratio(times.added(), times.direct.median()).map(|share| share * 100.0);
    let mut notes = vec![format!(
        "berth adds {} to a turn (difference of the medians), which is {} of it.",
        cell(times.added(), " ms"),
        cell(added, " %")
    )];
    if !is_there {
        notes =
            vec!["The real agents are not installed (`testing/agents/install`): not measured.".to_owned()];
    }
    Ok(stage.close(ReportSection {
        title: "n. What berth adds to a turn, Claude Code",
        method: format!(
            "Claude Code ({version}) with a model server on loopback that answers at once; one process on our own \
             pipes and one in a session, started the same way, {rounds} turns of each, in turn. From the prompt until \
             the result was read, or the end of the turn, which is on disk, was heard."
        ),
        table: times.table(),
        verdicts: vec![TargetVerdict::new("Claude Code: added to the direct turn, p50", TargetLimit::AtMost(2.0), " %", added)],
        notes,
        problems: Vec::new(),
    }))
}

fn claude_turns(
    lab: &BenchEnvironment,
    program: &Path,
    agents: &RealAgents,
    rounds: usize,
) -> Result<TurnComparison> {
    let berth = CurrentBerth { program: program.to_path_buf() };
    let mut run = berth.command(lab);
    agents.around(&mut run).args(["run", "-d", "--agent", "claude"]);
    let output = run.stdout(Stdio::piped()).stderr(Stdio::piped()).output().context("run berth run")?;
    if !output.status.success() {
        bail!("Claude Code could not be started: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let session = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut client = BenchKeeperClient::open(&CurrentBerth::root(lab), &session)?;
    let flags = CLAUDE_FLAGS.split_whitespace().chain([CLAUDE_SESSION]);
    let mut agent = DirectAgent::start(&agents.command("claude", flags))?;
    agent.say(
        &json!({"type": "control_request", "request_id": "init", "request": {"subtype": "initialize"}}),
    )?;
    agent.until(|line| line["type"] == "control_response")?;
    let direct = |round: usize| {
        let uuid = format!("0be47400-0000-4000-8000-{round:012x}");
        let message = json!({"role": "user", "content": PROMPT});
        agent.say(&json!({"type": "user", "uuid": uuid, "priority": "later", "message": message}))?;
        let result = agent.until(|line| line["type"] == "result")?;
        if result["is_error"] == false { Ok(()) } else { bail!("it said {result}") }
    };
    let times = alternate(rounds, 5, lab.dir(), direct, || turn(&mut client));
    drop(agent);
    // Stops the session after a failure as well: it must not outlive its agents' home.
    client.stop()?;
    times
}
