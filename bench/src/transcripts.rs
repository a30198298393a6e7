//! Checking transcripts, beside `jq -c .`, which only reads and writes them.
//!
//! Promise: both read the same files, in turn, with everything in the page cache; speed is by the time a process had a
//! processor, so that a busy machine does not count; memory is the most a process ever had.
//! Start with [`measure`].

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::competitors::{self, CurrentBerth};
use crate::measurement::BenchSettings;
use crate::process::BenchProcess;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::workspace::BenchEnvironment;

/// How often a working process is sampled: its usage is known to about this.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The size of one of many.
const SMALL_BYTES: u64 = 256 << 10;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("u", &["berth"])?;
    let rounds = bench.pick(5, 1);
    let (large, small) = (bench.pick(1_u64 << 30, 64 << 20), bench.pick(1000, 50));
    let jq = competitors::find("jq");
    let kinds = ["one of 1 GB", "many small ones", "one with a line of 200 MB"];
    let mut ours: Vec<ResourceSamples> = kinds.iter().map(|_| ResourceSamples::default()).collect();
    let mut theirs: Vec<ResourceSamples> = kinds.iter().map(|_| ResourceSamples::default()).collect();
    let mut sizes = vec![0; kinds.len()];
    stage.each(|lab, _| {
        let berth = CurrentBerth { program: bench.programs["berth"].clone() };
        let sets = [one(lab, large)?, many(lab, small)?, long(lab, bench.pick(200, 20))?];
        for round in 0..=rounds {
            for (number, files) in sets.iter().enumerate() {
                sizes[number] =
                    files.iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum();
                let mut command = berth.command(lab);
                let used = run(command.args(["transcript", "check", "-q"]).args(files))?;
                // The first round fills the page cache.
                if round > 0 {
                    ours[number].push(used);
                }
                // jq needs a minute for each file; once is enough.
                let Some(jq) = jq.as_ref().filter(|_| round == 1) else { continue };
                let mut command = lab.command(jq);
                theirs[number].push(run(command.args(["-c", "."]).args(files))?);
            }
        }
        Ok(())
    });
    let mut table = ReportTable::new(&[
        "transcripts",
        "size",
        "berth per core",
        "peak",
        "jq per core",
        "peak",
        "berth ÷ jq",
    ]);
    let mut verdicts = Vec::new();
    for (((kind, ours), theirs), bytes) in kinds.iter().zip(&ours).zip(&theirs).zip(sizes) {
        let mb = bytes as f64 / f64::from(1 << 20);
        let speed = |used: &ResourceSamples| ratio(Some(mb), used.seconds.median());
        let faster = ratio(theirs.seconds.median(), ours.seconds.median());
        table.row([
            (*kind).to_owned(),
            format!("{mb:.0} MB"),
            cell(speed(ours), " MB/s"),
            cell(ours.peak.quantile(1.0), " MB"),
            cell(speed(theirs), " MB/s"),
            cell(theirs.peak.quantile(1.0), " MB"),
            cell(faster, "×"),
        ]);
        verdicts.push(TargetVerdict::new(
            format!("check, {kind}"),
            TargetLimit::AtLeast(700.0),
            " MB/s",
            speed(ours),
        ));
        verdicts.push(TargetVerdict::ratio(
            format!("check, {kind}: speed ÷ jq's"),
            TargetLimit::AtLeast(10.0),
            faster,
        ));
        let peak = ours.peak.quantile(1.0);
        verdicts.push(TargetVerdict::new(
            format!("check, {kind}: memory"),
            TargetLimit::AtMost(64.0),
            " MB",
            peak,
        ));
    }
    let notes = if jq.is_none() { vec!["jq is not installed".to_owned()] } else { Vec::new() };
    Ok(stage.close(ReportSection {
        title: "u. Checking transcripts",
        method: format!(
            "Transcripts as Claude Code writes them. `berth transcript check` {rounds} times and `jq -c .` once, over the \
             same files, everything in the page cache; the time each had a processor, and the most memory it had."
        ),
        table,
        verdicts,
        notes,
        problems: Vec::new(),
    }))
}

/// Time and memory that runs of a program took.
#[derive(Default)]
struct ResourceSamples {
    seconds: MeasuredSamples,
    /// Peak memory in MB.
    peak: MeasuredSamples,
}

impl ResourceSamples {
    fn push(&mut self, (seconds, peak): (f64, f64)) {
        self.seconds.push(seconds);
        self.peak.push(peak);
    }
}

/// Runs a program to its end: seconds on a processor, and the most memory in MB.
fn run(command: &mut Command) -> Result<(f64, f64)> {
    let mut child = command.spawn().context("start it")?;
    let process = BenchProcess(child.id().cast_signed());
    let (mut seconds, mut peak) = (0.0, 0.0);
    // A process that has ended cannot be asked any more; until then both numbers only grow.
    let status = loop {
        if let Some(used) = process.cpu_fine() {
            seconds = used.as_secs_f64().max(seconds);
        }
        peak = peak_mb(process).unwrap_or(0.0).max(peak);
        if let Some(status) = child.try_wait().context("wait for it")? {
            break status;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok((seconds, peak))
}

fn peak_mb(process: BenchProcess) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0)).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}

fn one(lab: &BenchEnvironment, bytes: u64) -> Result<Vec<PathBuf>> {
    let path = lab.dir().join("one.jsonl");
    write(&path, bytes, 1)?;
    Ok(vec![path])
}

fn many(lab: &BenchEnvironment, count: u64) -> Result<Vec<PathBuf>> {
    let dir = lab.dir().join("many");
    std::fs::create_dir_all(&dir).context("make a directory")?;
    let paths: Vec<PathBuf> = (0..count).map(|number| dir.join(format!("{number}.jsonl"))).collect();
    for (number, path) in paths.iter().enumerate() {
        write(path, SMALL_BYTES, number as u64 + 2)?;
    }
    Ok(paths)
}

/// A transcript with one line of so many MB in it.
fn long(lab: &BenchEnvironment, mb: u64) -> Result<Vec<PathBuf>> {
    let path = lab.dir().join("long.jsonl");
    write(&path, SMALL_BYTES, 3)?;
    let mut file = BufWriter::new(File::options().append(true).open(&path).context("open a transcript")?);
    write!(file, "{{\"type\":\"summary\",\"sessionId\":\"{SESSION}\",\"text\":\"")?;
    for _ in 0..mb << 4 {
        file.write_all(&[b'x'; 1 << 16])?;
    }
    file.write_all(b"\"}\n")?;
    file.flush()?;
    Ok(vec![path])
}

const SESSION: &str = "0f0e0d0c-1111-4222-8333-444455556666";

/// Prompts, answers, calls and results, of realistic sizes, in one line of parents.
fn write(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).context("make a transcript")?);
    let mut dice = RandomWords(seed);
    let mut written = 0;
    let mut number = 0_u64;
    let id = |number: u64| {
        format!("{:08x}-aaaa-4bbb-8ccc-{number:012x}", number.wrapping_mul(2_654_435_769) as u32)
    };
    let mut tool = String::new();
    // A call is never the last thing.
    while written < bytes || !number.is_multiple_of(4) {
        let (kind, message) = match number % 4 {
            0 => ("user", format!("{{\"role\":\"user\",\"content\":\"{}\"}}", dice.words(20))),
            1 => {
                tool = format!("toolu_{seed:x}_{number:020x}");
                let input = dice.words(40);
                (
                    "assistant",
                    format!(
                        "{{\"id\":\"msg_{number}\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"{tool}\",\"name\":\"Bash\",\"input\":{{\"command\":\"{input}\"}}}}],\"stop_reason\":\"tool_use\",\"usage\":{{\"input_tokens\":3,\"output_tokens\":{number}}}}}"
                    ),
                )
            }
            2 => {
                let count = 20 + dice.below(1200);
                let text = dice.words(count);
                (
                    "user",
                    format!(
                        "{{\"role\":\"user\",\"content\":[{{\"tool_use_id\":\"{tool}\",\"type\":\"tool_result\",\"content\":\"{text}\",\"is_error\":false}}]}}"
                    ),
                )
            }
            _ => {
                let count = 20 + dice.below(300);
                let text = dice.words(count);
                (
                    "assistant",
                    format!(
                        "{{\"id\":\"msg_{number}\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"stop_reason\":\"end_turn\"}}"
                    ),
                )
            }
        };
        let parent = if number == 0 { "null".to_owned() } else { format!("\"{}\"", id(number - 1)) };
        let line = format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"promptId\":\"{}\",\"type\":\"{kind}\",\"message\":{message},\
             \"uuid\":\"{}\",\"timestamp\":\"2026-11-16T09:07:33.210Z\",\"userType\":\"external\",\"entrypoint\":\"sdk-cli\",\
             \"cwd\":\"/home/me/project\",\"sessionId\":\"{SESSION}\",\"version\":\"2.1.325\",\"gitBranch\":\"HEAD\"}}\n",
            id(number / 4 * 4),
            id(number),
        );
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        number += 1;
    }
    file.flush().context("write a transcript")
}

/// A random number generator with a fixed seed: every run has equal words.
struct RandomWords(u64);

impl RandomWords {
    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's MMIX generator; its high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// As in a source file: a line of some words, quotes and indents, all escaped.
    fn words(&mut self, count: u64) -> String {
        const WORDS: [&str; 16] = [
            "let",
            "server",
            "=",
            "request",
            "error",
            "for",
            "module",
            "\\\"test\\\"",
            "passed",
            "connection",
            "return",
            "reading",
            "file",
            "src/main.rs",
            "}\\n    ",
            "// done:\\n",
        ];
        let words: Vec<&str> = (0..count).map(|_| WORDS[self.below(WORDS.len() as u64) as usize]).collect();
        words.join(" ")
    }
}
