//! Samples of one quantity, and the few numbers that describe them.
//!
//! Promise: a quantile is a value that was measured, never one between two.
//! Start with [`MeasuredSamples`].

use std::time::Duration;

/// Measured values, in the order they were measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct MeasuredSamples(Vec<f64>);

impl MeasuredSamples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn push_ms(&mut self, duration: Duration) {
        self.push(duration.as_secs_f64() * 1e3);
    }

    /// The smallest value that at least this share of all samples does not exceed.
    /// Without samples there is none.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }

    pub(crate) fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// How many times `b` goes into `a`, when both were measured.
pub(crate) fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) if b > 0.0 => Some(a / b),
        (Some(_) | None, Some(_) | None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let samples = MeasuredSamples((1..=100).rev().map(f64::from).collect());
        assert_eq!(samples.median(), Some(50.0));
        assert_eq!(samples.quantile(0.99), Some(99.0));
        assert_eq!(samples.quantile(1.0), Some(100.0));
        assert_eq!(MeasuredSamples(vec![7.0]).quantile(0.01), Some(7.0));
        assert_eq!(MeasuredSamples::default().median(), None);
    }

    #[test]
    fn a_ratio_needs_both_numbers() {
        assert_eq!(ratio(Some(3.0), Some(2.0)), Some(1.5));
        assert_eq!(ratio(Some(3.0), Some(0.0)), None);
        assert_eq!(ratio(None, Some(2.0)), None);
    }
}
