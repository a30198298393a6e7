//! Sessions that had many turns: what a command costs must not follow their age.
//!
//! Promise: the same commands are measured on sessions with few, more and very many turns, which are told apart by
//! nothing else, in turn and in one run.
//! Start with [`measure`].

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use crate::gateway::BenchGateway;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::turns::BerthWithAcp;
use crate::workspace::{BenchEnvironment, BenchSession, PATIENCE};

/// How long a prompt is, in bytes.
const PROMPT_BYTES: usize = 200;
/// How many send at once to make a long session.
const SENDERS: usize = 50;
/// How long a sender stays away that was refused because too many turns wait.
const STAY_AWAY: Duration = Duration::from_millis(1);
/// A keeper is idle when nothing has happened for this long; until then it may tidy up.
const IDLE_AFTER: Duration = Duration::from_secs(3);
const KIB_PER_MIB: f64 = 1024.0;
const MOST_GROWTH: TargetLimit = TargetLimit::AtMost(1.2);
const MOST_GROWTH_OF_RESUME: TargetLimit = TargetLimit::AtMost(2.0);

/// The commands that ask a session, and how their time may grow with its turns.
const ASKED: [(&str, TargetLimit); 13] = [
    ("send --wait", MOST_GROWTH),
    ("turn, the latest", MOST_GROWTH),
    ("turn, an old one", MOST_GROWTH),
    ("result, the latest", MOST_GROWTH),
    ("result, an old one", MOST_GROWTH),
    ("show", MOST_GROWTH),
    ("wait", MOST_GROWTH),
    ("turns, the last 5", MOST_GROWTH),
    ("HTTP GET turn, the latest", MOST_GROWTH),
    ("HTTP GET turn, an old one", MOST_GROWTH),
    ("HTTP POST turns with wait", MOST_GROWTH),
    ("HTTP GET transcript, 5 turns", MOST_GROWTH),
    ("resume after kill -9 of the keeper", MOST_GROWTH_OF_RESUME),
];

/// A session with many turns.
struct LongSession {
    /// How many turns it had when it was first asked.
    turns: usize,
    latest: usize,
    name: String,
    session: BenchSession,
    memory: Option<f64>,
    took: [MeasuredSamples; ASKED.len()],
    dice: u64,
}

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("x", &["berth"])?;
    let sizes = bench.pick([10, 1000, 30_000], [10, 100, 1000]);
    let (rounds, resumes) = bench.pick((31, 7), (3, 2));
    let mut all: Vec<LongSession> = Vec::new();
    stage.each(|lab, _| {
        // An agent that keeps its conversations can be resumed.
        let store = lab.dir().join("store");
        std::fs::create_dir(&store).context("create a directory for transcripts")?;
        let berth = BerthWithAcp::new(&bench.programs["berth"], lab, Some(&store))?;
        for turns in sizes {
            all.push(LongSession::make(lab, &berth, turns)?);
        }
        std::thread::sleep(IDLE_AFTER);
        for long in &mut all {
            long.memory = long.session.holder.memory().map(|memory| memory.pss / KIB_PER_MIB);
        }
        let gateway = BenchGateway::start(lab, berth.berth())?;
        for _ in 0..rounds {
            for long in &mut all {
                long.ask(lab, &berth, &gateway)?;
            }
        }
        drop(gateway);
        for _ in 0..resumes {
            for long in &mut all {
                long.resume(lab, &berth)?;
            }
        }
        let sessions: Vec<BenchSession> = all.iter().map(|long| long.session.clone()).collect();
        lab.stop(&berth, &sessions)
    });
    let [few, _, most] = sizes;
    let mut head = vec!["p50 of".to_owned()];
    head.extend(sizes.iter().map(|turns| format!("{turns} turns")));
    head.push(format!("{most} ÷ {few}"));
    let mut table = ReportTable::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    let median = |at: usize, turns: usize| all.iter().find(|long| long.turns == turns)?.took[at].median();
    let growth = |at: usize| ratio(median(at, most), median(at, few));
    let mut verdicts = Vec::new();
    for (at, (what, limit)) in ASKED.into_iter().enumerate() {
        let mut row = vec![what.to_owned()];
        row.extend(sizes.map(|turns| cell(median(at, turns), " ms")));
        row.push(cell(growth(at), "×"));
        table.row(row);
        verdicts.push(TargetVerdict::ratio(format!("{what}: {most} turns ÷ {few}"), limit, growth(at)));
    }
    let memory = |turns: usize| all.iter().find(|long| long.turns == turns)?.memory;
    let mut row = vec!["memory of the idle keeper (PSS)".to_owned()];
    row.extend(sizes.map(|turns| cell(memory(turns), " MiB")));
    row.push(cell(ratio(memory(most), memory(few)), "×"));
    table.row(row);
    verdicts.push(TargetVerdict::new(
        format!("keeper, idle after {most} turns"),
        TargetLimit::AtMost(2.0),
        " MiB",
        memory(most),
    ));
    Ok(stage.close(ReportSection {
        title: "x. Sessions with many turns",
        method: format!(
            "Sessions of a fake agent that had so many turns of {PROMPT_BYTES} bytes, asked in turn, {rounds} rounds. \
             Commands by the name of the session, from spawn to exit; HTTP with a connection for each request. An old \
             turn is any but the latest, another one each time. Resume ({resumes} rounds): from spawning `berth resume \
             -d` until it returns, after the keeper was killed. Memory: {IDLE_AFTER:?} after anything happened."
        ),
        table,
        verdicts,
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

impl LongSession {
    fn make(lab: &mut BenchEnvironment, berth: &BerthWithAcp, turns: usize) -> Result<Self> {
        let session = lab.start(berth, "")?.session;
        let name = format!("long-{turns}");
        run(lab, berth, &["rename", &session.name, &name])?;
        fill(berth, &session.name, turns)?;
        Ok(Self {
            turns,
            latest: turns,
            name,
            session,
            memory: None,
            took: Default::default(),
            dice: turns as u64,
        })
    }

    /// An old turn's number.
    fn old(&mut self) -> usize {
        // Knuth's MMIX generator.
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (self.dice >> 33) as usize % (self.turns - 1)
    }

    /// Asks everything but to resume, once.
    fn ask(&mut self, lab: &BenchEnvironment, berth: &BerthWithAcp, gateway: &BenchGateway) -> Result<()> {
        let (name, id) = (self.name.clone(), self.session.name.clone());
        let old = self.old();
        let old_handle = format!("{name}.{old}");
        let prompt = prompt(0);
        let path = |turn: usize| format!("/v1/sessions/{id}/turns/{turn}");
        let commands: [&[&str]; 8] = [
            &["send", &name, &prompt, "--wait"],
            &["turn", &name],
            &["turn", &old_handle],
            &["result", &name],
            &["result", &old_handle],
            &["show", &name],
            &["wait", &name, "--for", "idle"],
            &["turns", &name, "--last", "5"],
        ];
        for (at, words) in commands.into_iter().enumerate() {
            let began_at = Instant::now();
            run(lab, berth, words)?;
            self.took[at].push_ms(began_at.elapsed());
        }
        self.latest += 1;
        let first = commands.len();
        for (at, turn) in [(first, self.latest), (first + 1, old)] {
            let began_at = Instant::now();
            gateway.get(&path(turn))?;
            self.took[at].push_ms(began_at.elapsed());
        }
        let body = serde_json::json!({"text": prompt, "wait": true}).to_string();
        let began_at = Instant::now();
        gateway.post(&format!("/v1/sessions/{id}/turns"), &body)?;
        self.took[first + 2].push_ms(began_at.elapsed());
        self.latest += 1;
        let began_at = Instant::now();
        gateway.get(&format!("/v1/sessions/{id}/transcript?limit=5"))?;
        self.took[first + 3].push_ms(began_at.elapsed());
        Ok(())
    }

    /// Kills the keeper and resumes the session.
    fn resume(&mut self, lab: &mut BenchEnvironment, berth: &BerthWithAcp) -> Result<()> {
        self.session.holder.signal(Signal::KILL);
        let until = Instant::now() + PATIENCE;
        while self.session.holder.is_alive() || self.session.agent.is_alive() {
            if Instant::now() > until {
                bail!("the agent outlived its keeper");
            }
            crate::workspace::reap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let began_at = Instant::now();
        run(lab, berth, &["resume", "-d", &self.name])?;
        self.took[ASKED.len() - 1].push_ms(began_at.elapsed());
        let report = lab.report(Instant::now() + PATIENCE)?.context("the agent did not come back")?;
        self.session = lab.session(self.session.name.clone(), report)?;
        Ok(())
    }
}

fn run(lab: &BenchEnvironment, berth: &BerthWithAcp, words: &[&str]) -> Result<()> {
    let mut command = berth.command(lab);
    let said = command.args(words).stderr(Stdio::piped()).output().context("run berth")?;
    if said.status.success() {
        return Ok(());
    }
    bail!("berth {}: {}", words.join(" "), String::from_utf8_lossy(&said.stderr).trim())
}

/// A prompt that differs from others.
fn prompt(number: usize) -> String {
    let mut text = format!("{number} ");
    while text.len() < PROMPT_BYTES {
        text.push_str("look at the failing test once more ");
    }
    text.truncate(PROMPT_BYTES);
    text
}

/// Gives a session so many turns, and waits until they are over.
fn fill(berth: &BerthWithAcp, session: &str, turns: usize) -> Result<()> {
    let (next, last) = (AtomicUsize::new(0), AtomicU64::new(0));
    let mut clients = Vec::new();
    for _ in 0..SENDERS.min(turns) {
        clients.push(berth.client(session)?);
    }
    std::thread::scope(|scope| {
        let (next, last) = (&next, &last);
        let senders: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || -> Result<()> {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= turns {
                            return Ok(());
                        }
                        let text = prompt(number);
                        let receipt = loop {
                            if let Some(receipt) = client.try_send(&text)? {
                                break receipt;
                            }
                            std::thread::sleep(STAY_AWAY);
                        };
                        last.fetch_max(receipt.number, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        senders.into_iter().try_for_each(|sender| sender.join().expect("a sender does not panic"))
    })?;
    berth.client(session)?.until_done(last.into_inner())
}
