//! The cost of a journalled event beyond that of the disk.
//!
//! Promise: the journal and the bare file take the same payload, in turn, in the same directory.
//! Start with [`measure`].

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context as _, Result};
use berth_journal::{Journal, JournalLimits, JournalRecord, RealDisk};

use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};

/// About the size of an event of a session.
const EVENT_BYTES: usize = 100;

/// An event that is nothing but its bytes.
struct ByteEvent(Vec<u8>);

impl JournalRecord for ByteEvent {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        Ok(Self(bytes.to_vec()))
    }
}

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let stage = bench.stage("h", &[])?;
    let rounds = bench.pick(2000, 200);
    let warm_up = 20;
    let dir = stage.lab.dir().join("journal");
    std::fs::create_dir(&dir).context("create a directory for the journal")?;
    let mut journal =
        Journal::create(RealDisk::new(dir), "bench", JournalLimits::default()).context("create a journal")?;
    let mut bare = File::create(stage.lab.dir().join("bare")).context("create a bare file")?;
    let (mut journalled, mut appended) = (MeasuredSamples::default(), MeasuredSamples::default());
    for round in 0..warm_up + rounds {
        let event = vec![b'e'; EVENT_BYTES];
        let began_at = Instant::now();
        bare.write_all(&event).and_then(|()| bare.sync_data()).context("append to a bare file")?;
        let bare_took = began_at.elapsed();
        let began_at = Instant::now();
        journal.append(vec![ByteEvent(event)]).context("append to the journal")?;
        let journal_took = began_at.elapsed();
        if round >= warm_up {
            appended.push_ms(bare_took);
            journalled.push_ms(journal_took);
        }
    }
    let mut table = ReportTable::new(&["way", "p50", "p90", "p99"]);
    for (way, samples) in [("berth-journal", &journalled), ("bare append + fdatasync", &appended)] {
        let quantiles = [0.5, 0.9, 0.99].map(|share| cell(samples.quantile(share), " ms"));
        table.row([vec![way.to_owned()], quantiles.to_vec()].concat());
    }
    let compared = ratio(journalled.median(), appended.median());
    Ok(stage.close(ReportSection {
        title: "h. Accepting a journalled event",
        method: format!(
            "{rounds} events of {EVENT_BYTES} bytes, one append each, in turn with the same bytes written and synced \
             (fdatasync) to a bare file beside it."
        ),
        table,
        verdicts: vec![TargetVerdict::ratio("journalled event p50: journal ÷ bare", TargetLimit::AtMost(1.3), compared)],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}
