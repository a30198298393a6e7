//! What a journalled event costs beyond the disk.
//!
//! Promise: the journal and the bare file take the same payload, in turn, in the same directory.
//! Start with [`measure`].

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context as _, Result};
use berth_journal::{Journal, Limits, RealDisk, Record};

use crate::report::{Limit, Section, Table, Verdict, cell};
use crate::stage::Bench;
use crate::stats::{Samples, ratio};

/// About what an event of a session is.
const EVENT_BYTES: usize = 100;

/// An event that is nothing but its bytes.
struct Event(Vec<u8>);

impl Record for Event {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        Ok(Self(bytes.to_vec()))
    }
}

pub(crate) fn measure(bench: &Bench) -> Result<Section> {
    let stage = bench.stage("h", &[])?;
    let rounds = bench.pick(2000, 200);
    let warm_up = 20;
    let dir = stage.lab.dir().join("journal");
    std::fs::create_dir(&dir).context("create a directory for the journal")?;
    let mut journal =
        Journal::create(RealDisk::new(dir), "bench", Limits::default()).context("create a journal")?;
    let mut bare = File::create(stage.lab.dir().join("bare")).context("create a bare file")?;
    let (mut journalled, mut appended) = (Samples::default(), Samples::default());
    for round in 0..warm_up + rounds {
        let event = vec![b'e'; EVENT_BYTES];
        let began_at = Instant::now();
        bare.write_all(&event).and_then(|()| bare.sync_data()).context("append to a bare file")?;
        let bare_took = began_at.elapsed();
        let began_at = Instant::now();
        journal.append(vec![Event(event)]).context("append to the journal")?;
        let journal_took = began_at.elapsed();
        if round >= warm_up {
            appended.push_ms(bare_took);
            journalled.push_ms(journal_took);
        }
    }
    let mut table = Table::new(&["way", "p50", "p90", "p99"]);
    for (way, samples) in [("berth-journal", &journalled), ("bare append + fdatasync", &appended)] {
        let quantiles = [0.5, 0.9, 0.99].map(|share| cell(samples.quantile(share), " ms"));
        table.row([vec![way.to_owned()], quantiles.to_vec()].concat());
    }
    let compared = ratio(journalled.median(), appended.median());
    Ok(stage.close(Section {
        title: "h. Accepting a journalled event",
        method: format!(
            "{rounds} events of {EVENT_BYTES} bytes, one append each, in turn with the same bytes written and synced \
             (fdatasync) to a bare file beside it."
        ),
        table,
        verdicts: vec![Verdict::ratio("journalled event p50: journal ÷ bare", Limit::AtMost(1.3), compared)],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}
