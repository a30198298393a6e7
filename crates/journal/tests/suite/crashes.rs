//! Many lives of one journal on a disk that fails, against a model that remembers what was promised.
//!
//! The model is two lists: the committed events, which must come back, and the failed ones since, of which one
//! batch may come back from its front. A broken promise is an `Err`, so that a test can check that planted bugs
//! break one.

use berth_journal::fake_disk::{FakeDisk, SplitMix64};
use berth_journal::{
    Checkpoint, Committed, Journal, JournalError, JournalLimits, PlantedBugs, RecoveredJournal, Seq,
};

use crate::common::{ByteRecord, FakeJournal, OWNER, notes, open, read, texts};

struct JournalModel {
    committed: Vec<ByteRecord>,
    failed: Vec<Vec<ByteRecord>>,
    /// Checkpoints of all lives. Each stands for a committed event.
    checkpoints: Vec<Checkpoint>,
}

impl JournalModel {
    fn new() -> Self {
        JournalModel { committed: Vec::new(), failed: Vec::new(), checkpoints: Vec::new() }
    }

    fn check(&self, seen: &[Committed<ByteRecord>]) -> Result<(), String> {
        for (n, event) in seen.iter().enumerate() {
            if event.seq() != Seq(n as u64 + 1) {
                return Err(format!("event {} has number {}", n + 1, event.seq()));
            }
        }
        let seen: Vec<&ByteRecord> = seen.iter().map(Committed::get).collect();
        let promised: Vec<&ByteRecord> = self.committed.iter().collect();
        if !seen.starts_with(&promised) {
            return Err(format!("committed {promised:?}, came back {seen:?}"));
        }
        let extra = &seen[promised.len()..];
        let explains = |batch: &Vec<ByteRecord>| batch.iter().take(extra.len()).eq(extra.iter().copied());
        if !extra.is_empty() && !self.failed.iter().any(explains) {
            return Err(format!("{extra:?} came back, failed were {:?}", self.failed));
        }
        Ok(())
    }

    /// Events that an opening has returned are committed from then on.
    fn opened(&mut self, seen: &[Committed<ByteRecord>]) -> Result<(), String> {
        self.check(seen)?;
        self.committed = seen.iter().map(|event| event.get().clone()).collect();
        self.failed.clear();
        Ok(())
    }

    fn appended(
        &mut self,
        batch: Vec<ByteRecord>,
        result: Result<Vec<Committed<ByteRecord>>, JournalError>,
    ) -> Result<(), String> {
        match result {
            // An empty batch writes nothing, and so supersedes nothing.
            Ok(_) if batch.is_empty() => Ok(()),
            Ok(_) => {
                self.committed.extend(batch);
                self.failed.clear();
                Ok(())
            }
            Err(error) => {
                self.failed.push(batch);
                tolerate(error)
            }
        }
    }
}

/// The disk may fail. The journal may not find damage on a disk that keeps what was synced.
fn tolerate(error: JournalError) -> Result<(), String> {
    use JournalError::{
        BatchTooLarge, Corrupt, Create, EmptyRecord, List, NewerFormat, NotEmpty, Read, RecordTooLarge,
        Remove, Rename, Sync, Undecodable, Write, WrongOwner,
    };
    match error {
        List { .. }
        | Read { .. }
        | Create { .. }
        | Write { .. }
        | Sync { .. }
        | Rename { .. }
        | Remove { .. } => Ok(()),
        NotEmpty { .. } | EmptyRecord { .. } | RecordTooLarge { .. } | BatchTooLarge { .. } => {
            Err(error.to_string())
        }
        Corrupt { .. } | WrongOwner { .. } | NewerFormat { .. } | Undecodable { .. } => {
            Err(error.to_string())
        }
    }
}

/// Forty lives with faults of every kind, all drawn from the seed.
fn live(seed: u64, planted: PlantedBugs) -> Result<(), String> {
    let mut rng = SplitMix64::new(seed);
    let disk = FakeDisk::new(rng.draw());
    let mut model = JournalModel::new();
    let segment_bytes = 1 + rng.below(600);
    let limits = JournalLimits { segment_bytes, merge_bytes: seed * 7 % 700, ..JournalLimits::default() };
    for _ in 0..40 {
        match rng.below(5) {
            0 => disk.fail_sync(1 + rng.below(6)),
            1 => disk.fail_syncs(rng.below(400)),
            2 => disk.leave_free(rng.below(500) as usize),
            3 => disk.cut_power_after(rng.below(20)),
            _ => disk.heal(),
        }
        let opened = match model.checkpoints.last() {
            // A second opening finds what the first one found and settled.
            Some(&checkpoint) if planted == PlantedBugs::default() && rng.coin() => {
                open_from(&disk, limits, checkpoint, &model)?
            }
            Some(_) | None => Journal::open_planted(disk.clone(), OWNER, limits, planted),
        };
        match opened {
            Ok((journal, recovered)) => {
                model.opened(&recovered.events)?;
                live_once(journal, &disk, &mut rng, &mut model, planted)?;
            }
            Err(error) => tolerate(error)?,
        }
        if rng.coin() {
            disk.crash();
        }
    }
    disk.crash();
    match Journal::open_planted(disk, OWNER, limits, planted) {
        Ok((_, recovered)) => model.opened(&recovered.events),
        Err(error) => Err(format!("a healthy disk was refused: {error}")),
    }
}

/// Opens behind a checkpoint. The events before it are those that the model remembers, so the answer equals that of
/// an opening that reads everything.
fn open_from(
    disk: &FakeDisk,
    limits: JournalLimits,
    checkpoint: Checkpoint,
    model: &JournalModel,
) -> Result<Result<(FakeJournal, RecoveredJournal<ByteRecord>), JournalError>, String> {
    let settled = match Journal::inspect_from(disk.clone(), OWNER, limits, checkpoint) {
        Ok(Some(unsettled)) => {
            // The whole journal, read without settling it.
            let whole =
                Journal::<ByteRecord, _>::inspect(disk.clone(), OWNER, limits).map_err(|e| e.to_string())?;
            let tail: &[Committed<ByteRecord>] = unsettled.events();
            let skipped = checkpoint.seq.0 as usize;
            if &whole.events()[skipped..] != tail {
                return Err(format!("behind {skipped}: {tail:?}, not {:?}", &whole.events()[skipped..]));
            }
            model.check(whole.events())?;
            let before = whole.events()[..skipped].to_vec();
            unsettled.settle().map(|(journal, mut recovered)| {
                recovered.events.splice(0..0, before);
                (journal, recovered)
            })
        }
        Ok(None) => {
            return Err(format!("event {} was committed, and its checkpoint is refused", checkpoint.seq));
        }
        Err(error) => Err(error),
    };
    Ok(settled)
}

fn live_once(
    mut journal: FakeJournal,
    disk: &FakeDisk,
    rng: &mut SplitMix64,
    model: &mut JournalModel,
    planted: PlantedBugs,
) -> Result<(), String> {
    for _ in 0..rng.below(6) {
        let batch: Vec<ByteRecord> = (0..rng.below(4)).map(|_| random_note(rng)).collect();
        let result = journal.append(batch.clone());
        model.appended(batch, result)?;
        if journal.next_seq() != Seq(model.committed.len() as u64 + 1) {
            return Err(format!("{} events, but next is {}", model.committed.len(), journal.next_seq()));
        }
        if planted == PlantedBugs::default() && rng.below(4) == 0 {
            match read(disk) {
                Ok(seen) => {
                    model.check(&seen)?;
                    read_pieces(disk, &seen, rng)?;
                }
                Err(error) => tolerate(error)?,
            }
        }
    }
    if let Some(checkpoint) = journal.checkpoint() {
        model.checkpoints.push(checkpoint);
    }
    if rng.below(3) == 0 { journal.close().or_else(tolerate) } else { Ok(()) }
}

/// Reads through the index and compares with a scan from the start.
fn read_pieces(disk: &FakeDisk, all: &[Committed<ByteRecord>], rng: &mut SplitMix64) -> Result<(), String> {
    for _ in 0..4 {
        let from = 1 + rng.below(all.len() as u64 + 2);
        let to = if rng.coin() { u64::MAX } else { from + rng.below(8) };
        let most_bytes = if rng.coin() { usize::MAX } else { 1 + rng.below(200) as usize };
        let mut expected = Vec::new();
        let mut bytes = 0;
        for event in all.iter().filter(|event| (from..=to).contains(&event.seq().0)) {
            if bytes < most_bytes {
                bytes += event.0.len();
                expected.push(event.clone());
            }
        }
        match berth_journal::read_journal_range::<ByteRecord, _>(disk, OWNER, Seq(from), Seq(to), most_bytes)
        {
            Ok(seen) if seen == expected => {}
            Ok(seen) => {
                return Err(format!("{from} to {to}, {most_bytes} bytes: {seen:?}, not {expected:?}"));
            }
            Err(error) => tolerate(error)?,
        }
    }
    Ok(())
}

fn random_note(rng: &mut SplitMix64) -> ByteRecord {
    let most = if rng.below(8) == 0 { 300 } else { 40 };
    let length = 1 + rng.below(most);
    ByteRecord((0..length).map(|_| rng.draw() as u8).collect())
}

/// Number of lives in a test run; `JOURNAL_SEEDS=1000000` for a long night.
fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("JOURNAL_SEEDS").map_or(1_000, |n| n.parse().expect("JOURNAL_SEEDS is a number"))
}

#[test]
fn committed_events_survive_every_crash_and_failed_ones_come_back_as_a_prefix_or_not_at_all() {
    for seed in seeds() {
        if let Err(broken) = live(seed, PlantedBugs::default()) {
            panic!("seed {seed}: {broken}");
        }
    }
}

fn assert_caught(planted: PlantedBugs) {
    let caught = (0..200).filter(|&seed| live(seed, planted).is_err()).count();
    assert!(caught >= 20, "{planted:?} was noticed by {caught} seeds of 200 only");
}

#[test]
fn a_journal_that_skips_checksums_is_caught() {
    assert_caught(PlantedBugs { skip_checksum: true, ..PlantedBugs::default() });
}

#[test]
fn a_journal_that_keeps_a_torn_tail_is_caught() {
    assert_caught(PlantedBugs { keep_torn_tail: true, ..PlantedBugs::default() });
}

#[test]
fn a_journal_that_ignores_a_failed_sync_is_caught() {
    assert_caught(PlantedBugs { ignore_sync_error: true, ..PlantedBugs::default() });
}

#[test]
fn the_power_may_go_before_any_single_step_of_a_life_and_of_its_recovery() {
    let limits = JournalLimits { segment_bytes: 100, ..JournalLimits::default() };
    for (seed, first_end, second_end) in
        (0..6).flat_map(|seed| (0..24).flat_map(move |a| (0..14).map(move |b| (seed, a, b))))
    {
        let mut model = JournalModel::new();
        let disk = FakeDisk::new(seed);
        let mut run = || -> Result<(), String> {
            let mut journal =
                Journal::create(disk.clone(), OWNER, limits).map_err(|error| error.to_string())?;
            disk.cut_power_after(first_end);
            for batch in [&["a"][..], &["b", "c"], &["d", "e", "f"], &["g"]] {
                model.appended(notes(batch), journal.append(notes(batch)))?;
            }
            journal.close().or_else(tolerate)?;
            disk.crash();
            disk.cut_power_after(second_end);
            match open(&disk) {
                Ok((_, recovered)) => model.opened(&recovered.events)?,
                Err(error) => tolerate(error)?,
            }
            disk.crash();
            model.opened(&open(&disk).map_err(|error| error.to_string())?.1.events)
        };
        run().unwrap_or_else(|broken| panic!("seed {seed}, ends {first_end} and {second_end}: {broken}"));
    }
}

#[test]
fn an_opening_that_is_cut_short_keeps_the_torn_bytes_for_the_next_one() {
    let whole =
        crate::common::written(&["a", "b"], false).files().remove(&crate::common::segment(1)).unwrap();
    for steps in 0..12 {
        let disk = FakeDisk::new(steps);
        disk.put(&crate::common::segment(1), &whole[..whole.len() - 1]);
        disk.cut_power_after(steps);
        let first = open(&disk).map(|(_, recovered)| recovered.torn);
        disk.crash();
        let (_, recovered) = open(&disk).unwrap();
        assert_eq!(texts(&recovered.events), ["a"]);
        let kept = disk.files().into_iter().filter(|(name, _)| name.contains(".torn-")).collect::<Vec<_>>();
        assert_eq!(kept.len(), 1, "{steps} steps, first {first:?}");
        assert_eq!(kept[0].1, whole[53..whole.len() - 1], "{steps} steps");
    }
}

/// Found by seed 347: the unborn segment was renamed away, the sync of that failed, the opening after it went on from
/// the segment before, and at the next crash the old name was back.
#[test]
fn an_unborn_segment_keeps_its_name_until_another_takes_it() {
    let limits = JournalLimits { segment_bytes: 1, ..JournalLimits::default() };
    for (seed, fails) in (0..40).flat_map(|seed| (1..4).map(move |fails| (seed, fails))) {
        let disk = FakeDisk::new(seed);
        crate::common::create(&disk, limits).append(notes(&["a"])).unwrap();
        disk.put(&crate::common::segment(2), b"half a hea");
        disk.fail_sync(fails);
        for _ in 0..2 {
            // One opening may fail, and the one after it must not be misled by what the kernel shows.
            drop(open(&disk));
            assert!(disk.files().contains_key(&crate::common::segment(2)));
        }
        disk.crash();
        let (mut journal, recovered) = open(&disk).unwrap();
        assert_eq!(texts(&recovered.events), ["a"], "seed {seed}, sync {fails}");
        journal.append(notes(&["b"])).unwrap();
        disk.crash();
        assert_eq!(texts(&open(&disk).unwrap().1.events), ["a", "b"], "seed {seed}, sync {fails}");
    }
}
