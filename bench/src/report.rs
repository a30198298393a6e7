//! The findings as text, alike on the screen and in `RESULTS.md`.
//!
//! Promise: every target is listed with its measured value and whether it was met, and a target that could not be
//! measured says so instead of disappearing.
//! Start with [`ReportSection`] and [`render`].

use std::fmt::Write as _;

/// One measurement with its table, its targets and its problems.
pub(crate) struct ReportSection {
    pub(crate) title: &'static str,
    pub(crate) method: String,
    pub(crate) table: ReportTable,
    pub(crate) verdicts: Vec<TargetVerdict>,
    pub(crate) notes: Vec<String>,
    /// Errors while measuring.
    pub(crate) problems: Vec<String>,
}

/// Rows of cells under a head.
pub(crate) struct ReportTable {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl ReportTable {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|cell| (*cell).to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl std::fmt::Display for ReportTable {
    /// Markdown with aligned columns, so that it reads well unrendered too.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain(self.head.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut line = |cells: &[String]| {
            write!(f, "|")?;
            for (column, width) in widths.iter().enumerate() {
                let cell = cells.get(column).map_or("", String::as_str);
                let gap = " ".repeat(width - cell.chars().count());
                // Names to the left, numbers to the right.
                if column == 0 { write!(f, " {cell}{gap} |")? } else { write!(f, " {gap}{cell} |")? }
            }
            writeln!(f)
        };
        line(&self.head)?;
        let rule = |(column, width): (usize, &usize)| match column {
            0 => "-".repeat(*width),
            _ => format!("{}:", "-".repeat(width - 1)),
        };
        line(&widths.iter().enumerate().map(rule).collect::<Vec<_>>())?;
        self.rows.iter().try_for_each(|row| line(row))
    }
}

/// One target of the issue, and how it went.
pub(crate) struct TargetVerdict {
    what: String,
    limit: TargetLimit,
    unit: &'static str,
    measured: Option<f64>,
}

/// The side of the number that is good.
#[derive(Clone, Copy)]
pub(crate) enum TargetLimit {
    AtMost(f64),
    AtLeast(f64),
}

impl TargetVerdict {
    pub(crate) fn ratio(what: impl Into<String>, limit: TargetLimit, measured: Option<f64>) -> Self {
        Self::new(what, limit, "×", measured)
    }

    pub(crate) fn new(
        what: impl Into<String>,
        limit: TargetLimit,
        unit: &'static str,
        measured: Option<f64>,
    ) -> Self {
        Self { what: what.into(), limit, unit, measured }
    }

    fn target(&self) -> String {
        match self.limit {
            TargetLimit::AtMost(limit) => format!("≤ {limit}{}", self.unit),
            TargetLimit::AtLeast(limit) => format!("≥ {limit}{}", self.unit),
        }
    }

    fn outcome(&self) -> String {
        let Some(measured) = self.measured else { return "not measured".to_owned() };
        let (met, limit) = match self.limit {
            TargetLimit::AtMost(limit) => (measured <= limit, limit),
            TargetLimit::AtLeast(limit) => (measured >= limit, limit),
        };
        match (met, limit == 0.0) {
            (true, _) => "met".to_owned(),
            (false, true) => format!("missed by {}{}", significant(measured), self.unit),
            (false, false) => format!("missed by {:.0} %", ((measured / limit - 1.0) * 100.0).abs().max(1.0)),
        }
    }
}

/// The whole report.
pub(crate) fn render(preamble: &str, sections: &[ReportSection]) -> String {
    let mut text = format!("# Speed and memory beside the peers\n\n{preamble}\n{}", targets(sections));
    for section in sections {
        let _ = write!(text, "\n{section}");
    }
    text
}

/// Every target, and how it went.
pub(crate) fn targets(sections: &[ReportSection]) -> String {
    let mut table = ReportTable::new(&["target", "wanted", "measured", "verdict"]);
    for verdict in sections.iter().flat_map(|section| &section.verdicts) {
        let measured = cell(verdict.measured, verdict.unit);
        table.row([verdict.what.clone(), verdict.target(), measured, verdict.outcome()]);
    }
    format!("## Targets\n\n{table}")
}

impl ReportSection {
    /// Stands for a measurement that could not be made.
    pub(crate) fn failed(letter: char, problem: &anyhow::Error) -> Self {
        Self {
            title: "Failed",
            method: format!("Measurement {letter} was not made."),
            table: ReportTable::new(&[]),
            verdicts: Vec::new(),
            notes: Vec::new(),
            problems: vec![format!("{problem:#}")],
        }
    }
}

impl std::fmt::Display for ReportSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "## {}\n\n{}\n\n{}", self.title, self.method, self.table)?;
        for note in &self.notes {
            write!(f, "\n{note}\n")?;
        }
        for problem in &self.problems {
            write!(f, "\n**Problem:** {problem}\n")?;
        }
        Ok(())
    }
}

/// Three digits that mean something.
pub(crate) fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A number with its unit, or a dash where there is none.
pub(crate) fn cell(value: Option<f64>, unit: &str) -> String {
    value.map_or("–".to_owned(), |value| format!("{}{unit}", significant(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(limit: TargetLimit, measured: Option<f64>) -> String {
        TargetVerdict::ratio("x", limit, measured).outcome()
    }

    #[test]
    fn a_verdict_says_by_how_much_a_target_was_missed() {
        assert_eq!(verdict(TargetLimit::AtMost(0.6), Some(0.6)), "met");
        assert_eq!(verdict(TargetLimit::AtMost(0.6), Some(0.9)), "missed by 50 %");
        assert_eq!(verdict(TargetLimit::AtLeast(2.0), Some(1.0)), "missed by 50 %");
        assert_eq!(verdict(TargetLimit::AtMost(0.0), Some(3.0)), "missed by 3.00×");
        assert_eq!(verdict(TargetLimit::AtMost(0.6), None), "not measured");
    }

    #[test]
    fn a_target_missed_by_a_hair_is_still_missed() {
        assert_eq!(verdict(TargetLimit::AtMost(1.0), Some(1.0001)), "missed by 1 %");
    }

    #[test]
    fn a_table_is_aligned_markdown() {
        let mut table = ReportTable::new(&["holder", "ms"]);
        table.row(["tmux".to_owned(), "4.70".to_owned()]);
        assert_eq!(table.to_string(), "| holder |   ms |\n| ------ | ---: |\n| tmux   | 4.70 |\n");
    }
}
