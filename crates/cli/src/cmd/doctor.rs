//! `berth doctor`: what this host offers, what each missing piece costs, and what would fix it.
//!
//! Not here: looking (see [`berth_verbs::doctor`]).

use berth_api::{Code, Problem};
use berth_verbs::doctor::{Report, State, examine};

use crate::args::Doctor;
use crate::print;
use crate::visible::{Paint, Visible};

/// Width when nobody says, as in a pipe.
const USUAL_WIDTH: usize = 100;
/// Where the sentences begin.
const INDENT: usize = 26;

pub(crate) fn run(args: &Doctor) -> Result<u8, Problem> {
    let report = examine();
    if args.json {
        print::json(&report)?;
    } else {
        let width = crate::tty::size().map_or(USUAL_WIDTH, |size| usize::from(size.cols));
        print::text(&text(&report, width))?;
    }
    Ok(if report.usable { 0 } else { Code::Refused.exit_code() })
}

fn text(report: &Report, width: usize) -> Visible {
    let room = width.saturating_sub(INDENT).max(20);
    let mut text = Visible::from(format!("{}\n\n", summary(report)));
    for row in &report.rows {
        let (word, paint) = match row.state {
            State::Ok => ("ok", Paint::Green),
            State::Limited => ("limited", Paint::Yellow),
            State::Missing => ("missing", Paint::Red),
        };
        let mut lines = wrapped(&row.found, room);
        lines.extend(row.cost.iter().flat_map(|cost| wrapped(&format!("cost: {cost}"), room)));
        // Not wrapped: people copy it.
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

fn summary(report: &Report) -> String {
    if !report.usable {
        let stuck = report.rows.iter().filter(|row| row.needed && row.state == State::Missing);
        let names: Vec<&str> = stuck.map(|row| row.name).collect();
        return format!("berth cannot work here: {}", names.join(", "));
    }
    match report.limited {
        0 => "everything berth can use is here".to_owned(),
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
            // A path cannot be broken.
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
