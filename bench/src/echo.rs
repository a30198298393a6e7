//! From a key to its echo.
//!
//! Promise: the bench is both the user and the terminal; between them are the client, the holder, and a program that
//! writes back what it reads.
//! Start with [`measure`].

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::competitors::BERTH_BEFORE;
use crate::measurement::{BenchSettings, BySessionManager, MeasurementSetup, against_before, ratio_cell};
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::terminal::BenchTerminal;
use crate::workspace::{BenchSession, PATIENCE};

/// A new key each time, so that an echo cannot be mistaken for the one before. None of them is
/// the last byte of an escape sequence that redraws anything.
const KEYS: &[u8] = b"jkxy";
/// Keys typed one after the other before the next holder's turn.
const BURST: usize = 20;
/// Before a key that no process was waiting for: the processes have gone to sleep, and so has a CPU.
const PAUSE: Duration = Duration::from_millis(2);

/// How the keys are typed.
#[derive(Clone, Copy)]
enum TypingPace {
    /// The next key as soon as the last was echoed, as when a key is held or text pasted.
    AtOnce,
    /// A key now and then.
    AfterAPause,
}

type AttachedTerminals = BySessionManager<(BenchTerminal, BenchSession)>;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage =
        bench.stage("c", &["berth", BERTH_BEFORE, "tmux", "dtach", "abduco", "shpool", "screen"])?;
    let keys = bench.pick(1000, 100);
    let mut attached = AttachedTerminals::new();
    stage.each(|lab, holder| {
        let session = lab.start(holder, "echo")?.session;
        let mut terminal = BenchTerminal::open(&holder.attach(lab, &session.name), lab.dir())?;
        terminal.go()?;
        terminal.settle(Duration::from_millis(300), PATIENCE)?;
        attached.insert(holder.name(), (terminal, session));
        Ok(())
    });
    let _warm_up = type_keys(&mut stage, &mut attached, TypingPace::AtOnce, 2 * BURST);
    let at_once = type_keys(&mut stage, &mut attached, TypingPace::AtOnce, keys);
    let paused = type_keys(&mut stage, &mut attached, TypingPace::AfterAPause, keys);
    stage.each(|lab, holder| {
        let (terminal, session) = attached.remove(holder.name()).context("not attached")?;
        drop(terminal);
        lab.stop(holder, &[session])
    });
    let head = ["holder", "p50", "p90", "p99", "berth ÷ it", "paused p50", "p90", "p99", "berth ÷ it"];
    let mut table = ReportTable::new(&head);
    for name in stage.names() {
        let mut row = vec![name.to_owned()];
        for samples in [&at_once, &paused] {
            row.extend([0.5, 0.9, 0.99].map(|share| cell(quantile(samples, name, share), " µs")));
            row.push(ratio_cell(samples, name));
        }
        table.row(row);
    }
    let compared =
        |samples, share, peer| ratio(quantile(samples, "berth", share), quantile(samples, peer, share));
    let at_most = TargetLimit::AtMost(1.0);
    Ok(stage.close(ReportSection {
        title: "c. Key to echo",
        method: format!(
            "{keys} keys for each. A client of each is attached in a terminal of the bench's; the program in the \
             session echoes in raw mode. First {BURST} keys, each as soon as the last was echoed, then the next \
             holder's turn; paused: one key, {PAUSE:?} after anything happened, then the next holder's turn."
        ),
        table,
        verdicts: [

            TargetVerdict::ratio("key to echo p50: berth ÷ dtach", at_most, compared(&at_once, 0.5, "dtach")),
            TargetVerdict::ratio("key to echo p99: berth ÷ tmux", at_most, compared(&at_once, 0.99, "tmux")),
            TargetVerdict::ratio("key after a pause p50: berth ÷ dtach", at_most, compared(&paused, 0.5, "dtach")),
            TargetVerdict::ratio("key after a pause p99: berth ÷ tmux", at_most, compared(&paused, 0.99, "tmux")),
        ]
        .into_iter()
        .chain(against_before("key to echo", &at_once))
        .chain(against_before("key after a pause", &paused))
        .collect(),
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

fn quantile(samples: &BySessionManager<MeasuredSamples>, name: &str, share: f64) -> Option<f64> {
    samples.get(name).and_then(|samples| samples.quantile(share))
}

/// Types to the holders in turn, and returns the microseconds to each echo.
fn type_keys(
    stage: &mut MeasurementSetup,
    attached: &mut AttachedTerminals,
    typing: TypingPace,
    keys: usize,
) -> BySessionManager<MeasuredSamples> {
    let mut samples = BySessionManager::<MeasuredSamples>::new();
    let (in_turn, pause) = match typing {
        TypingPace::AtOnce => (BURST, Duration::ZERO),
        TypingPace::AfterAPause => (1, PAUSE),
    };
    for turn in 0..keys / in_turn {
        stage.each(|_, holder| {
            let (terminal, _) = attached.get_mut(holder.name()).context("not attached")?;
            for number in 0..in_turn {
                let key = KEYS[(turn * in_turn + number) % KEYS.len()];
                std::thread::sleep(pause);
                terminal.settle(Duration::ZERO, PATIENCE)?;
                let typed_at = Instant::now();
                terminal.type_key(key)?;
                let took = terminal.wait_for(&[key], PATIENCE)? - typed_at;
                samples.entry(holder.name()).or_default().push(took.as_secs_f64() * 1e6);
            }
            Ok(())
        });
    }
    samples
}
