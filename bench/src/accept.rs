//! Sending: the time until a turn is accepted, which means on disk, for one sender and for fifty at once.
//!
//! Promise: the bare file takes as many bytes as the journal grows by for a turn, on the same file system, and neither
//! pays for data that the other left to be written: they take turns in blocks. The receipts of the fifty senders are
//! compared with the prompts that the agent says it got.
//! Start with [`measure`].

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::competitors::BERTH_BEFORE;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::turns::{BenchKeeperClient, BerthWithAcp};
use crate::workspace::BenchEnvironment;

/// How many turns are measured before it is the other side's turn.
const BLOCK: usize = 20;
/// How many of the first turns are not counted.
const WARM_UP: usize = BLOCK;
/// The prompt that is sent: about a line.
const PROMPT: &str = "look at the failing test once more, and tell me what it waits for before you change it";
/// How many turns each of many senders sends in a round: together no more than may wait.
const EACH_IN_A_ROUND: usize = 2;

/// Measurements with one sender.
#[derive(Default)]
struct OneSenderResult {
    bare: MeasuredSamples,
    queued: MeasuredSamples,
    at_once: MeasuredSamples,
    command: MeasuredSamples,
    bytes: usize,
}

/// Measurements with many senders.
#[derive(Default)]
struct ManySendersResult {
    senders: usize,
    sent: usize,
    latency: MeasuredSamples,
    accepted_in: Duration,
    lost: usize,
    out_of_order: usize,
}

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("l", &["berth"])?;
    let rounds = bench.pick(2000, 100);
    let commands = bench.pick(200, 10);
    let (senders, send_rounds) = bench.pick((50, 20), (50, 2));
    let mut one = OneSenderResult::default();
    let mut many = ManySendersResult::default();
    stage.each(|lab, _| {
        let store = lab.dir().join("store");
        std::fs::create_dir(&store).context("create a directory for transcripts")?;
        let berth = BerthWithAcp::new(&bench.programs["berth"], lab, Some(&store))?;
        one = one_sender(lab, &berth, rounds, commands)?;
        many = many_senders(lab, &berth, &store, senders, send_rounds)?;
        Ok(())
    });
    let mut many_before = ManySendersResult::default();
    let mut stage_before = bench.stage("lb", &[BERTH_BEFORE])?;
    stage_before.each(|lab, _| {
        let store = lab.dir().join("store");
        std::fs::create_dir(&store).context("create a directory for transcripts")?;
        let berth = BerthWithAcp::new(&bench.programs[BERTH_BEFORE], lab, Some(&store))?;
        many_before = many_senders(lab, &berth, &store, senders, send_rounds)?;
        Ok(())
    });
    let mut table = ReportTable::new(&["what", "p50", "p99", "÷ bare (p50)"]);
    let mut row = |name: String, samples: &MeasuredSamples, compared: bool| {
        let against = ratio(samples.median(), one.bare.median()).filter(|_| compared);
        let numbers = [samples.median(), samples.quantile(0.99)].map(|value| cell(value, " ms"));
        table.row([vec![name], numbers.to_vec(), vec![cell(against, "×")]].concat());
    };
    row("bare append + fdatasync".to_owned(), &one.bare, false);
    row("send → accepted, others wait".to_owned(), &one.queued, true);
    row("send → accepted, the agent is idle".to_owned(), &one.at_once, true);
    row("the whole command `berth send`".to_owned(), &one.command, true);
    row(format!("send → accepted, {} at once", many.senders), &many.latency, true);
    let measured = (many.sent > 0).then_some(());
    let per_second =
        |many: &ManySendersResult| (many.sent > 0).then(|| many.sent as f64 / many.accepted_in.as_secs_f64());
    Ok(stage.close(ReportSection {
        title: "l. Sending a turn",
        method: format!(
            "One connection to a keeper whose queue is paused (others wait) or whose fake agent has nothing to do \
             (idle; the turn is over before the next is sent), {rounds} sends of each, in blocks of {BLOCK} in turn \
             with as many bytes ({}) written and synced (fdatasync) to a bare file on the same file system. The \
             command, {commands} times, from spawn to exit. Then {} senders at once on one session whose queue is paused, \
             each with a connection of its own: {EACH_IN_A_ROUND} turns in a row, until all are accepted; then the queue \
             goes on until they are done, and the next of {send_rounds} rounds begins. {} turns in all.",
            one.bytes, many.senders, many.sent
        ),
        table,
        verdicts: [
            TargetVerdict::ratio(
                "send → accepted p50 ÷ bare append + fdatasync",
                TargetLimit::AtMost(1.5),
                ratio(one.queued.median(), one.bare.median()),
            ),
            TargetVerdict::ratio(
                "send → accepted p50, idle agent ÷ bare",
                TargetLimit::AtMost(1.5),
                ratio(one.at_once.median(), one.bare.median()),
            ),
            TargetVerdict::new(
                format!("{} senders: turns lost", many.senders),
                TargetLimit::AtMost(0.0),
                "",
                measured.map(|()| many.lost as f64),
            ),
            TargetVerdict::new(
                format!("{} senders: turns out of order", many.senders),
                TargetLimit::AtMost(0.0),
                "",
                measured.map(|()| many.out_of_order as f64),
            ),
        ]
        .into_iter()
        .chain(ratio(per_second(&many), per_second(&many_before)).map(|compared| {
            let what = format!("{} senders: turns accepted per second ÷ before", many.senders);
            TargetVerdict::ratio(what, TargetLimit::AtLeast(5.0), Some(compared))
        }))
        .collect(),
        notes: vec![format!(
            "{} senders: {} turns accepted per second, {} before.",
            many.senders,
            cell(per_second(&many), ""),
            cell(per_second(&many_before), "")
        )],
        problems: Vec::new(),
    }))
}

fn one_sender(
    lab: &mut BenchEnvironment,
    berth: &BerthWithAcp,
    rounds: usize,
    commands: usize,
) -> Result<OneSenderResult> {
    let waiting = lab.start(berth, "")?.session;
    let idle = lab.start(berth, "")?.session;
    let (mut to_waiting, mut to_idle) = (berth.client(&waiting.name)?, berth.client(&idle.name)?);
    let mut bare = File::create(lab.dir().join("bare")).context("create a bare file")?;
    let mut one = OneSenderResult::default();
    let mut done = 0;
    while done < WARM_UP + rounds {
        let is_counted = done >= WARM_UP;
        done += BLOCK;
        to_waiting.pause()?;
        let before = berth.journal_bytes(&waiting.name)?;
        let mut last = 0;
        for _ in 0..BLOCK {
            let began_at = Instant::now();
            last = to_waiting.send(PROMPT)?;
            count(&mut one.queued, began_at, is_counted);
        }
        one.bytes = (berth.journal_bytes(&waiting.name)? - before) as usize / BLOCK;
        to_waiting.go_on()?;
        to_waiting.until_done(last)?;
        for _ in 0..BLOCK {
            let began_at = Instant::now();
            let turn = to_idle.send(PROMPT)?;
            count(&mut one.at_once, began_at, is_counted);
            to_idle.until_done(turn)?;
        }
        let bytes = vec![b'e'; one.bytes];
        for _ in 0..BLOCK {
            let began_at = Instant::now();
            bare.write_all(&bytes).and_then(|()| bare.sync_data()).context("append to a bare file")?;
            count(&mut one.bare, began_at, is_counted);
        }
    }
    for _ in 0..commands {
        let began_at = Instant::now();
        let mut command = berth.command(lab);
        let output = command.args(["send", &idle.name, PROMPT, "--json"]).stdout(Stdio::piped()).output();
        let output = output.context("run berth send")?;
        one.command.push_ms(began_at.elapsed());
        let receipt: Value = serde_json::from_slice(&output.stdout).context("understand a receipt")?;
        let turn = receipt["turn"].as_str().and_then(|turn| turn.rsplit_once('.')?.1.parse().ok());
        to_idle.until_done(turn.context("a receipt without a number")?)?;
    }
    lab.stop(berth, &[waiting, idle])?;
    Ok(one)
}

fn count(samples: &mut MeasuredSamples, began_at: Instant, is_counted: bool) {
    let took = began_at.elapsed();
    if is_counted {
        samples.push_ms(took);
    }
}

/// Results of one of many senders: number and text of every turn, and how long each took.
#[derive(Default)]
struct SenderResult {
    turns: Vec<(u64, String)>,
    took: Vec<Duration>,
}

fn many_senders(
    lab: &mut BenchEnvironment,
    berth: &BerthWithAcp,
    store: &Path,
    senders: usize,
    rounds: usize,
) -> Result<ManySendersResult> {
    for file in std::fs::read_dir(store).context("list the transcripts")? {
        std::fs::remove_file(file?.path()).context("forget a transcript")?;
    }
    let session = lab.start(berth, "")?.session;
    let mut clients = Vec::new();
    for _ in 0..senders {
        clients.push(berth.client(&session.name)?);
    }
    let mut queue = berth.client(&session.name)?;
    let mut many = ManySendersResult { senders, ..ManySendersResult::default() };
    let mut accepted = Vec::new();
    for round in 0..rounds {
        queue.pause()?;
        let (took, sent) = one_round(&mut clients, round)?;
        many.accepted_in += took;
        for sent in sent {
            many.sent += sent.turns.len();
            accepted.extend(sent.turns);
            sent.took.into_iter().for_each(|took| many.latency.push_ms(took));
        }
        queue.go_on()?;
        let last = accepted.iter().map(|(turn, _)| *turn).max().context("nothing was sent")?;
        queue.until_done(last)?;
    }
    accepted.sort();
    if accepted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        bail!("two turns were given one number");
    }
    let heard = heard(store)?;
    let wanted: Vec<&String> = accepted.iter().map(|(_, text)| text).collect();
    many.lost = wanted.iter().filter(|text| !heard.contains(text)).count();
    let places = wanted.iter().zip(&heard);
    many.out_of_order =
        places.filter(|(wanted, heard)| **wanted != *heard).count() + heard.len().abs_diff(wanted.len());
    lab.stop(berth, &[session])?;
    Ok(many)
}

/// All clients send at once. Returns the time until the last turn was accepted.
fn one_round(clients: &mut [BenchKeeperClient], round: usize) -> Result<(Duration, Vec<SenderResult>)> {
    let gate = Barrier::new(clients.len() + 1);
    std::thread::scope(|scope| {
        let gate = &gate;
        let start = |(sender, client)| {
            scope.spawn(move || {
                gate.wait();
                send_some(client, sender, round)
            })
        };
        let threads: Vec<_> = clients.iter_mut().enumerate().map(start).collect();
        gate.wait();
        let began_at = Instant::now();
        let sent: Result<Vec<SenderResult>> =
            threads.into_iter().map(|thread| thread.join().expect("a sender does not panic")).collect();
        Ok((began_at.elapsed(), sent?))
    })
}

fn send_some(client: &mut BenchKeeperClient, sender: usize, round: usize) -> Result<SenderResult> {
    let mut sent = SenderResult::default();
    for number in 0..EACH_IN_A_ROUND {
        let text = format!("{number} of {sender} in {round}: {PROMPT}");
        let began_at = Instant::now();
        let turn = client.send(&text)?;
        sent.took.push(began_at.elapsed());
        sent.turns.push((turn, text));
    }
    Ok(sent)
}

/// The prompts of the only transcript, in the order in which the agent got them.
fn heard(store: &Path) -> Result<Vec<String>> {
    let files: Vec<_> = std::fs::read_dir(store).context("list the transcripts")?.flatten().collect();
    let [file] = &files[..] else { bail!("one agent wrote {} transcripts", files.len()) };
    let text = std::fs::read_to_string(file.path()).context("read a transcript")?;
    let mut prompts = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).context("understand a transcript")?;
        if record["kind"] == "begin" {
            prompts.push(record["prompt"].as_str().unwrap_or_default().to_owned());
        }
    }
    Ok(prompts)
}
