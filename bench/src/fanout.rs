//! Many readers of one busy session, each hearing of everything.
//!
//! Promise: every reader's events are counted by number, so that one that is missing, or comes twice, shows. Memory of
//! the gateway and the keeper is measured at the moment at which the readers are.
//! Start with [`measure`].

use std::io::Read as _;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::competitors::CurrentBerth;
use crate::gateway::BenchGateway;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::MeasuredSamples;
use crate::workspace::PATIENCE;

/// How many turns at a connection before the first events of others are read.
const READ_BYTES: usize = 64 * 1024;

/// One reader of events.
struct FanoutReader {
    stream: TcpStream,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// The number of the last event, and how many events did not follow the one before.
    last: u64,
    odd: u64,
    heard: u64,
}

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("s", &["berth"])?;
    let readers: usize = bench.pick(1000, 100);
    let events: u64 = bench.pick(2000, 200);
    let rounds = bench.pick(50, 5);
    let program = bench.programs.get("berth").cloned();
    let (mut lost, mut odd) = (None, None);
    let mut first = MeasuredSamples::default();
    let (mut said_in, mut heard_in) = (None, None);
    let (mut gateway_grown, mut keeper_grown, mut per_reader) = (None, None, None);
    stage.each(|lab, holder| {
        let berth = CurrentBerth { program: program.clone().context("berth is not installed")? };
        let session = lab.start(holder, "hang")?.session;
        let gateway = BenchGateway::start(lab, &berth)?;
        let path = format!("/v1/sessions/{}/events", session.name);
        let ask = |after: u64| gateway.ask(&format!("{path}?after={after}"), "Accept: text/event-stream\r\n");
        for _ in 0..rounds {
            let began_at = Instant::now();
            let mut reader = FanoutReader::new(ask(0)?);
            while reader.heard == 0 {
                reader.wait()?;
            }
            first.push_ms(began_at.elapsed());
        }
        let dir = CurrentBerth::root(lab).join("sessions").join(&session.name);
        let mut keeper = KeeperConnection::open(&dir, "the bench".to_owned()).context("reach the keeper")?;
        let before = number(&mut keeper)?;
        let memory =
            |process: crate::process::BenchProcess| process.memory().map(|memory| memory.pss / 1024.0);
        let (gateway_before, keeper_before) = (memory(gateway.process()), memory(session.holder));
        let mut all = Vec::new();
        for _ in 0..readers {
            all.push(FanoutReader { last: before, ..FanoutReader::new(ask(before)?) });
        }
        // A reader is connected when it has heard an event.
        keeper.ask(note(0)).map_err(anyhow::Error::new)?;
        until(&mut all, before + 1)?;
        let began_at = Instant::now();
        let talk = std::thread::spawn(move || -> Result<(KeeperConnection, Duration)> {
            let began_at = Instant::now();
            for event in 0..events {
                keeper.ask(note(event + 1)).map_err(anyhow::Error::new)?;
            }
            Ok((keeper, began_at.elapsed()))
        });
        until(&mut all, before + 1 + events)?;
        heard_in = Some(began_at.elapsed().as_secs_f64() * 1e3);
        let (_, took) = talk.join().expect("the talking thread does not panic")?;
        said_in = Some(took.as_secs_f64() * 1e3);
        gateway_grown = memory(gateway.process()).zip(gateway_before).map(|(now, then)| now - then);
        keeper_grown = memory(session.holder).zip(keeper_before).map(|(now, then)| now - then);
        per_reader = gateway_grown.map(|grown| grown * 1024.0 / readers as f64);
        lost =
            Some(all.iter().map(|reader| (before + 1 + events).saturating_sub(reader.last)).sum::<u64>()
                as f64);
        odd = Some(all.iter().map(|reader| reader.odd).sum::<u64>() as f64);
        drop(all);
        drop(gateway);
        lab.stop(holder, &[session])
    });
    let mut table = ReportTable::new(&[
        "readers",
        "events",
        "said in",
        "all heard after",
        "first event",
        "p99",
        "gateway +",
        "keeper +",
    ]);
    table.row([
        readers.to_string(),
        events.to_string(),
        cell(said_in, " ms"),
        cell(heard_in, " ms"),
        cell(first.median(), " ms"),
        cell(first.quantile(0.99), " ms"),
        cell(gateway_grown, " MB"),
        cell(keeper_grown, " MB"),
    ]);
    Ok(stage.close(ReportSection {
        title: "s. Many readers of one session",
        method: format!(
            "{readers} connections read the events of one session (SSE over TCP, a token each time); {events} events are \
             said to its keeper one after the other (a note each, each on disk before the next). Every reader must \
             hear each once, in order. First event: from connecting until an event of the past is there, {rounds} times."
        ),
        table,
        verdicts: vec![
            TargetVerdict::new("events lost", TargetLimit::AtMost(0.0), "", lost),
            TargetVerdict::new("events twice or out of order", TargetLimit::AtMost(0.0), "", odd),
            TargetVerdict::new("first event after connecting", TargetLimit::AtMost(20.0), " ms", first.median()),
            TargetVerdict::new("gateway, for each reader", TargetLimit::AtMost(64.0), " KB", per_reader),
            TargetVerdict::new("keeper, for all readers", TargetLimit::AtMost(1.0), " MB", keeper_grown),
        ],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

fn note(number: u64) -> KeeperRequest {
    KeeperRequest::Note { note: Some(format!("event {number}")) }
}

/// The number of the last event.
fn number(keeper: &mut KeeperConnection) -> Result<u64> {
    match keeper.ask(KeeperRequest::Status).map_err(anyhow::Error::new)? {
        berth_api::KeeperAnswer::Done { status } => Ok(status.seq),
        other => bail!("the keeper sent an unexpected answer: {other:?}"),
    }
}

/// Reads for all of them until each has heard of this event.
fn until(readers: &mut [FanoutReader], wanted: u64) -> Result<()> {
    let deadline = Instant::now() + 3 * PATIENCE;
    while readers.iter().any(|reader| reader.last < wanted) {
        let mut polled: Vec<PollFd<'_>> = readers
            .iter()
            .map(|reader| PollFd::from_borrowed_fd(reader.stream.as_fd(), PollFlags::IN))
            .collect();
        poll(&mut polled, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).context("wait for events")?;
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        for (reader, _) in readers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            reader.wait()?;
        }
        if Instant::now() > deadline {
            // Missing events are counted, which says more than an error.
            return Ok(());
        }
    }
    Ok(())
}

impl FanoutReader {
    fn new(stream: TcpStream) -> Self {
        Self { stream, rest: Vec::new(), last: 0, odd: 0, heard: 0 }
    }

    /// Reads what is there, or waits for something.
    fn wait(&mut self) -> Result<()> {
        let mut buffer = [0; READ_BYTES];
        let count = self.stream.read(&mut buffer).context("read events")?;
        if count == 0 {
            bail!("a stream of events ended");
        }
        self.rest.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let id = std::str::from_utf8(&line).ok().and_then(|line| line.strip_prefix("id:"));
            if let Some(id) = id.and_then(|id| id.trim().parse::<u64>().ok()) {
                if id != self.last + 1 && self.heard > 0 {
                    self.odd += 1;
                }
                (self.last, self.heard) = (id, self.heard + 1);
            }
        }
        Ok(())
    }
}
