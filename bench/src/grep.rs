//! Finding text in a gigabyte of sessions, beside ripgrep.
//!
//! Promise: both search the same files, in turn, with everything in the page cache; berth finds at least the lines
//! ripgrep finds (it also finds those whose words are coloured or escaped).
//! Start with [`measure`].

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::competitors::{self, CurrentBerth};
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::workspace::BenchEnvironment;

/// The size of an output file, as keepers make them.
const FILE_BYTES: u64 = 16 << 20;
/// How often a line has what is looked for.
const ONE_IN: u64 = 20_000;

/// The searches: a name, and the arguments that both programs understand.
const SEARCHES: [(&str, &[&str]); 3] = [
    ("literal", &["-F", "connection refused by upstream"]),
    ("regex", &[r"refused by \w+ after \d+ms"]),
    ("ignoring case", &["-i", "CONNECTION REFUSED"]),
];

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("q", &["berth"])?;
    let sessions = bench.pick(64, 6);
    let rounds = bench.pick(9, 2);
    let rg = competitors::find("rg");
    let mut times: Vec<(MeasuredSamples, MeasuredSamples)> =
        SEARCHES.iter().map(|_| (MeasuredSamples::default(), MeasuredSamples::default())).collect();
    let mut found = vec![(0, 0); SEARCHES.len()];
    stage.each(|lab, _| {
        let berth = CurrentBerth { program: bench.programs["berth"].clone() };
        fill(lab, &berth, &bench.fake_agent, sessions)?;
        let files = CurrentBerth::root(lab).join("sessions");
        // As many threads as berth has.
        let threads =
            format!("-j{}", std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 16));
        for round in 0..=rounds {
            for (number, (_, arguments)) in SEARCHES.iter().enumerate() {
                let mut ours = berth.command(lab);
                let (took, lines) = timed(ours.arg("grep").args(*arguments))?;
                found[number].0 = lines;
                // The first round fills the page cache.
                if round > 0 {
                    times[number].0.push_ms(took);
                }
                let Some(rg) = &rg else { continue };
                let mut theirs = lab.command(rg);
                theirs.args([&threads, "-a", "--no-ignore", "--no-heading"]).args(*arguments).arg(&files);
                let (took, lines) = timed(&mut theirs)?;
                found[number].1 = lines;
                if round > 0 {
                    times[number].1.push_ms(took);
                }
            }
        }
        let few = SEARCHES.iter().zip(&found).find(|(_, (ours, theirs))| *ours == 0 || ours < theirs);
        match few {
            Some(((name, _), (ours, theirs))) => bail!("{name}: found {ours} lines, and ripgrep {theirs}"),
            None => Ok(()),
        }
    });
    let mut table =
        ReportTable::new(&["search", "berth grep p50", "p99", "lines", "ripgrep p50", "p99", "lines"]);
    let mut verdicts = Vec::new();
    for (((name, _), (ours, theirs)), found) in SEARCHES.iter().zip(&times).zip(&found) {
        table.row([
            (*name).to_owned(),
            cell(ours.median(), " ms"),
            cell(ours.quantile(0.99), " ms"),
            found.0.to_string(),
            cell(theirs.median(), " ms"),
            cell(theirs.quantile(0.99), " ms"),
            found.1.to_string(),
        ]);
        let speed = ratio(theirs.median(), ours.median());
        verdicts.push(TargetVerdict::ratio(
            format!("speed ÷ ripgrep's, {name}"),
            TargetLimit::AtLeast(0.7),
            speed,
        ));
    }
    let notes = if rg.is_none() { vec!["ripgrep is not installed".to_owned()] } else { Vec::new() };
    let size = (sessions * FILE_BYTES) >> 20;
    Ok(stage.close(ReportSection {
        title: "q. Finding text",
        method: format!(
            "{sessions} sessions with a file of 16 MB each, {size} MB in all: a third plain, a third in colours, a \
             third records of an agent that takes turns. `berth grep` and `rg -a --no-ignore --no-heading` over the \
             same files with as many threads, from spawn to exit, {rounds} times in turn, everything in the page cache."
        ),
        table,
        verdicts,
        notes,
        problems: Vec::new(),
    }))
}

/// Runs a search; how long it took, and how many lines it found.
fn timed(command: &mut Command) -> Result<(std::time::Duration, usize)> {
    let began_at = Instant::now();
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().context("run a search")?;
    let took = began_at.elapsed();
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok((took, output.stdout.iter().filter(|byte| **byte == b'\n').count()))
}

/// Makes sessions that have ended, and gives them something they said.
fn fill(lab: &BenchEnvironment, berth: &CurrentBerth, fake_agent: &Path, sessions: u64) -> Result<()> {
    let config = lab.dir().join("find.toml");
    let agent = format!("command = [{:?}, \"acp\"]", fake_agent.display().to_string());
    let text = format!("[agents.fake]\ndriver = \"acp\"\nconversation_kind = \"fake\"\n{agent}\n");
    std::fs::write(&config, text).context("write a config file")?;
    let run = |words: &[&str]| -> Result<String> {
        let mut command = berth.command(lab);
        let output = command.env("BERTH_CONFIG", &config).args(words).stdout(Stdio::piped()).output()?;
        if !output.status.success() {
            bail!("berth {words:?} failed ({})", output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let mut dice = RandomLines(42);
    for number in 0..sessions {
        let kind = CorpusKind::of(number);
        let id = match kind {
            CorpusKind::Plain | CorpusKind::Coloured => run(&["run", "-d", "--", "true"])?,
            CorpusKind::Records => run(&["run", "-d", "--agent", "fake"])?,
        };
        run(&["stop", &id])?;
        let dir = CurrentBerth::root(lab).join("sessions").join(&id).join("output");
        std::fs::create_dir_all(&dir)?;
        let files = std::fs::read_dir(&dir)?.flatten().map(|entry| entry.path());
        let known: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|ending| ending == "out")).collect();
        let start: u64 = known.iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum();
        let path = dir.join(format!("{start:020}.out"));
        let mut file = BufWriter::new(File::create(&path).context("make an output file")?);
        let mut written = 0;
        while written < FILE_BYTES {
            let line = dice.line(kind);
            file.write_all(line.as_bytes())?;
            written += line.len() as u64;
        }
        file.flush()?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CorpusKind {
    Plain,
    Coloured,
    Records,
}

impl CorpusKind {
    fn of(number: u64) -> Self {
        match number % 3 {
            0 => Self::Plain,
            1 => Self::Coloured,
            _ => Self::Records,
        }
    }
}

/// A random number generator with a fixed seed: every run has equal lines.
struct RandomLines(u64);

impl RandomLines {
    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's MMIX generator; its high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn line(&mut self, kind: CorpusKind) -> String {
        const WORDS: [&str; 16] = [
            "the",
            "server",
            "compiled",
            "request",
            "error",
            "for",
            "module",
            "test",
            "passed",
            "connection",
            "while",
            "reading",
            "file",
            "src/main.rs",
            "warning",
            "done",
        ];
        let mut words: Vec<String> = (0..6 + self.below(12))
            .map(|_| WORDS[self.below(WORDS.len() as u64) as usize].to_owned())
            .collect();
        if self.below(ONE_IN) == 0 {
            words.push(format!("connection refused by upstream after {}ms", self.below(1000)));
        }
        match kind {
            CorpusKind::Plain => words.join(" ") + "\r\n",
            CorpusKind::Coloured => {
                let painted = words.iter().map(|word| match word.len() {
                    5 | 7 => format!("\x1b[1;32m{word}\x1b[0m"),
                    _ => word.clone(),
                });
                painted.collect::<Vec<_>>().join(" ") + "\r\n"
            }
            CorpusKind::Records => format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{{\"sessionUpdate\":\
                 \"tool_call_update\",\"toolCallId\":\"t\",\"status\":\"completed\",\"content\":[{{\"type\":\"content\",\"content\":\
                 {{\"type\":\"text\",\"text\":\"{}\\n\\\"quoted\\\"\\n\"}}}}]}}}}}}\n",
                words.join(" ").replace("done", "done\\n")
            ),
        }
    }
}
