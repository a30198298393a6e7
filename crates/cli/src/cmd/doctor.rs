//! `berth doctor`: prints the features of this host, the cost of each missing one, and how to get it.
//!
//! Not here: the checks (see [`berth_verbs::doctor`]).

use berth_api::{Problem, ProblemCode};
use berth_verbs::doctor::{CheckState, DoctorReport, examine};

use crate::args::DoctorArgs;
use crate::print;
use crate::safe_text::{SafeText, TextStyle};

/// Width if standard output is not a terminal, in columns.
const USUAL_WIDTH: usize = 100;
/// Column in which the sentences begin.
const INDENT: usize = 26;

pub(crate) fn run(args: &DoctorArgs) -> Result<u8, Problem> {
    let report = examine();
    if args.json {
        print::json(&report)?;
    } else {
        let width = crate::tty::terminal_size().map_or(USUAL_WIDTH, |size| usize::from(size.cols));
        print::text(&text(&report, width))?;
    }
    Ok(if report.usable { 0 } else { ProblemCode::Refused.exit_code() })
}

fn text(report: &DoctorReport, width: usize) -> SafeText {
    let room = width.saturating_sub(INDENT).max(20);
    let mut text = SafeText::from(format!("{}\n\n", summary(report)));
    for row in &report.rows {
        let (word, paint) = match row.state {
            CheckState::Ok => ("ok", TextStyle::Green),
            CheckState::Limited => ("limited", TextStyle::Yellow),
            CheckState::Missing => ("missing", TextStyle::Red),
        };
        let mut lines = wrapped(&row.found, room);
        lines.extend(row.cost.iter().flat_map(|cost| wrapped(&format!("cost: {cost}"), room)));
        // Not wrapped, because users copy this command.
        lines.extend(row.fix.iter().map(|fix| format!("fix:  {fix}")));
        for (at, line) in lines.iter().enumerate() {
            let (word, name) =
                if at == 0 { (print::painted(paint, word, 7), row.name) } else { (" ".repeat(7).into(), "") };
            let line = word + format!("  {name:15}  {line}");
            text.push(line.trim_end() + "\n");
        }
    }
    text
}

fn summary(report: &DoctorReport) -> String {
    if !report.usable {
        let stuck = report.rows.iter().filter(|row| row.needed && row.state == CheckState::Missing);
        let names: Vec<&str> = stuck.map(|row| row.name).collect();
        return format!("berth cannot work here: {}", names.join(", "));
    }
    match report.limited {
        0 => "this host has every feature that berth can use".to_owned(),
        1 => "1 thing is limited; berth works, with the limits below".to_owned(),
        count => format!("{count} things are limited; berth works, with the limits below"),
    }
}

/// Lines of at most `width` letters, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_to_copy_are_longer_than_a_line() {
        let mut report = examine();
        let long = report.rows.first_mut().expect("something is looked at");
        (long.found, long.cost) = ("word ".repeat(60), Some("word ".repeat(60)));
        for line in text(&report, 80).as_str().lines().filter(|line| !line.contains("fix:  ")) {
            // A path is not wrapped.
            let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
            assert!(line.chars().count() <= 80.max(INDENT + longest), "{line}");
        }
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("averylongword x", 5), ["averylongword", "x"]);
        assert!(wrapped("", 5).is_empty());
    }
}
