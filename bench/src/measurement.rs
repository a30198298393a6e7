//! The stage of a measurement: the holders that are installed, a lab to run them in, and a way to go
//! round them in turn.
//!
//! Promise: a holder that fails is reported and left out from then on, while the others go on; a stage that is dropped,
//! even by an error, leaves no process and no file.
//! Start with [`BenchSettings::stage`] and [`MeasurementSetup::each`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use crate::competitors::{self, BERTH_BEFORE, SessionManager};
use crate::report::{ReportSection, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::workspace::BenchEnvironment;

/// The settings of one run of the bench.
pub(crate) struct BenchSettings {
    /// Holders that are installed, by name.
    pub(crate) programs: BTreeMap<&'static str, PathBuf>,
    pub(crate) fake_agent: PathBuf,
    /// Where labs are made.
    pub(crate) base: PathBuf,
    /// Fewer rounds: to see that it works, not to believe the numbers.
    pub(crate) is_quick: bool,
}

/// A value for each holder.
pub(crate) type BySessionManager<T> = BTreeMap<&'static str, T>;

impl BenchSettings {
    /// The number for a full run or for a quick one.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.is_quick { quick } else { full }
    }

    /// Sets up the holders of this list that are installed.
    pub(crate) fn stage(&self, name: &str, holders: &[&str]) -> Result<MeasurementSetup> {
        let lab = BenchEnvironment::new(&self.base, name, &self.fake_agent)?;
        let mut stage = MeasurementSetup { holders: Vec::new(), problems: Vec::new(), lab, dice: 1 };
        for name in holders {
            if let Some(program) = self.programs.get(name) {
                stage.holders.push(competitors::holder(name, program)?);
            }
        }
        stage.each(|lab, holder| holder.prepare(lab));
        Ok(stage)
    }
}

/// The holders of one measurement and the lab they run in.
pub(crate) struct MeasurementSetup {
    pub(crate) holders: Vec<Box<dyn SessionManager>>,
    pub(crate) lab: BenchEnvironment,
    problems: Vec<String>,
    dice: u64,
}

impl MeasurementSetup {
    /// Does something with each holder, in another order every time: what one leaves for the
    /// machine to clear up must not always meet the same next one.
    pub(crate) fn each(
        &mut self,
        mut act: impl FnMut(&mut BenchEnvironment, &dyn SessionManager) -> Result<()>,
    ) {
        let mut failed = Vec::new();
        for index in self.shuffled() {
            let holder = self.holders[index].as_ref();
            if let Err(problem) = act(&mut self.lab, holder) {
                self.problems.push(format!("{}: {problem:#}", holder.name()));
                holder.shut_down(&self.lab);
                failed.push(holder.name());
            }
        }
        self.holders.retain(|holder| !failed.contains(&holder.name()));
    }

    fn shuffled(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.holders.len()).collect();
        for last in (1..order.len()).rev() {
            // Knuth's MMIX generator: the same orders in every run, and good enough to mix six.
            self.dice =
                self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, (self.dice >> 33) as usize % (last + 1));
        }
        order
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.holders.iter().map(|holder| holder.name()).collect()
    }

    /// Clears up and adds to the section what went wrong, leftovers included.
    pub(crate) fn close(mut self, mut section: ReportSection) -> ReportSection {
        self.shut_down();
        let left = self.lab.close();
        self.problems.extend(left.into_iter().map(|process| format!("left behind and killed: {process}")));
        section.problems.append(&mut self.problems);
        section
    }

    fn shut_down(&mut self) {
        for holder in self.holders.drain(..) {
            holder.shut_down(&self.lab);
        }
    }
}

impl Drop for MeasurementSetup {
    fn drop(&mut self) {
        self.shut_down();
        self.lab.close();
    }
}

/// The median for one holder.
pub(crate) fn median(samples: &BySessionManager<MeasuredSamples>, holder: &str) -> Option<f64> {
    samples.get(holder).and_then(MeasuredSamples::median)
}

/// How berth's median compares with a peer's.
pub(crate) fn against(samples: &BySessionManager<MeasuredSamples>, peer: &str) -> Option<f64> {
    ratio(median(samples, "berth"), median(samples, peer))
}

/// The verdict on berth beside an earlier build of it, if one was measured: no more than 5 % worse.
pub(crate) fn against_before(
    what: &str,
    samples: &BySessionManager<MeasuredSamples>,
) -> Option<TargetVerdict> {
    let compared = against(samples, BERTH_BEFORE)?;
    Some(TargetVerdict::ratio(format!("{what}: berth ÷ before"), TargetLimit::AtMost(1.05), Some(compared)))
}

/// `berth ÷ this holder`, for the last column of a table.
pub(crate) fn ratio_cell(samples: &BySessionManager<MeasuredSamples>, holder: &str) -> String {
    if holder == "berth" { String::new() } else { cell(against(samples, holder), "×") }
}
