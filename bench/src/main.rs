//! Speed and memory beside the peers.
//!
//! Promise: berth and its peers are measured in one run, in turn, each with its defaults and in
//! a private place; every target of the issue is listed with what was measured; nothing is left
//! behind, and if something had to be killed the report says so and the exit code is not 0.
//! Not here: installing and building (see `bench/run`).
//! Start with [`MEASUREMENTS`], one file each; `peers` has the holders, `lab` the place.

mod accept;
mod competitors;
mod dashboard;
mod echo;
mod end;
mod end_many;
mod fanout;
mod gateway;
mod grep;
mod growth;
mod helper;
mod hook;
mod http;
mod journal;
mod list;
mod measurement;
mod memory;
mod output;
mod parallel;
mod process;
mod queue;
mod reattach;
mod report;
mod slow_disk;
mod start;
mod stats;
mod sweep;
mod terminal;
mod transcripts;
mod turn;
mod turns;
mod websocket;
mod workspace;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use measurement::BenchSettings;
use report::ReportSection;

/// A measurement and the letter it is chosen by.
type LetteredMeasurement = (char, fn(&BenchSettings) -> Result<ReportSection>);

/// In the order of the report.
const MEASUREMENTS: [LetteredMeasurement; 25] = [
    ('a', start::measure),
    ('b', parallel::measure),
    ('c', echo::measure),
    ('d', output::measure),
    ('e', reattach::measure),
    ('f', memory::measure),
    ('g', list::measure),
    ('h', journal::measure),
    ('i', end::measure),
    ('j', sweep::measure),
    ('k', helper::measure),
    ('l', accept::measure),
    ('m', turn::measure_fake),
    ('n', turn::measure_claude),
    ('o', queue::measure),
    ('p', dashboard::measure),
    ('q', grep::measure),
    ('r', http::measure),
    ('s', fanout::measure),
    ('t', websocket::measure),
    ('u', transcripts::measure),
    ('v', hook::measure),
    ('w', end_many::measure),
    ('x', growth::measure),
    ('y', slow_disk::measure),
];

const HELP: &str = "berth-bench: speed and memory beside the peers (bench/run installs and builds what it needs)

usage: berth-bench --fake-agent PATH [--berth PATH] [--before PATH] [--only a,c] [--quick] [--write PATH] [--dir DIR]
       berth-bench clean DIR

  --fake-agent PATH  the program that runs in the sessions
  --berth PATH       berth's command; without it only the peers are measured, as found through PATH
  --before PATH      an earlier build of berth, measured beside it in sections a to f, v and w
  --only a,c         only these: a start · b parallel · c echo · d output · e reattach · f memory · g list · h journal
                     i end · j sweep · k helper · l sending · m turn · n turn of Claude Code · o memory of turns · p dashboard
                     q finding text · r asking the gateway · s many readers · t terminal over WebSocket
                     u checking transcripts · v hooks · w ending many · x long sessions · y keys with a slow disk
  --quick            few rounds: shows that it works, not how fast it is
  --write PATH       write the report there as well
  --dir DIR          make the private directories there, on a real disk; the system's temporary directory otherwise
  clean DIR          end everything that a killed run left in DIR
";

/// Options of the command line.
struct BenchOptions {
    bench: BenchSettings,
    only: Option<String>,
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [terminal::VERB, gate, program, ..] => {
            terminal::enter(Path::new(gate), program, &words[3..]).map(|()| true)
        }
        [hook::VERB, berth, event, rounds] => {
            hook::call(Path::new(berth), Path::new(event), rounds).map(|()| true)
        }
        ["clean", dir] => {
            workspace::clean(Path::new(dir), Duration::ZERO);
            Ok(true)
        }
        ["--help" | "-h"] => {
            print!("{HELP}");
            Ok(true)
        }
        _ => options(&words).and_then(|options| run(&options)),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn options(words: &[String]) -> Result<BenchOptions> {
    let (mut fake_agent, mut berth, mut before, mut only, mut write, mut dir) =
        (None, None, None, None, None, None);
    let mut is_quick = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--fake-agent" => fake_agent = Some(PathBuf::from(value()?)),
            "--berth" => berth = Some(PathBuf::from(value()?)),
            "--before" => before = Some(PathBuf::from(value()?)),
            "--only" => only = Some(value()?),
            "--write" => write = Some(PathBuf::from(value()?)),
            "--dir" => dir = Some(PathBuf::from(value()?)),
            "--quick" => is_quick = true,
            other => bail!("unknown option {other}; see --help"),
        }
    }
    let fake_agent = fake_agent.context("--fake-agent is needed; bench/run gives it")?;
    let fake_agent = fake_agent.canonicalize().with_context(|| format!("find {}", fake_agent.display()))?;
    let base = match dir {
        Some(dir) => dir.canonicalize().with_context(|| format!("find {}", dir.display()))?,
        None => std::env::temp_dir(),
    };
    // Short, because the path of a socket has 107 bytes at most.
    let base = base.join(format!("bb{}", std::process::id()));
    let mut programs: BTreeMap<_, _> = competitors::KNOWN
        .iter()
        .filter_map(|(name, command, _)| Some((*name, competitors::find(command)?)))
        .collect();
    for (name, berth) in
        [("berth", &berth), (competitors::BERTH_NAMED, &berth), (competitors::BERTH_BEFORE, &before)]
    {
        programs.remove(name);
        if let Some(berth) = berth {
            let berth = berth.canonicalize().with_context(|| format!("find {}", berth.display()))?;
            programs.insert(name, berth);
        }
    }
    Ok(BenchOptions { bench: BenchSettings { programs, fake_agent, base, is_quick }, only, write })
}

/// Measures, prints and writes; false when something went wrong on the way.
fn run(options: &BenchOptions) -> Result<bool> {
    // A process that a holder leaves behind becomes our child, where it can be seen and ended.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("become the subreaper")?;
    let bench = &options.bench;
    std::fs::create_dir(&bench.base).with_context(|| format!("create {}", bench.base.display()))?;
    let mut preamble = preamble(bench);
    let mut sections = Vec::new();
    for (letter, measure) in MEASUREMENTS {
        if options.only.as_ref().is_some_and(|only| !only.contains(letter)) {
            continue;
        }
        eprintln!("measuring {letter} …");
        let section = measure(bench).unwrap_or_else(|problem| ReportSection::failed(letter, &problem));
        println!("{section}");
        sections.push(section);
    }
    let _ = std::fs::remove_dir(&bench.base);
    let _ = writeln!(preamble, "- load when it ended: {}", load());
    let text = report::render(&preamble, &sections);
    println!("{preamble}\n{}", report::targets(&sections));
    if let Some(path) = &options.write {
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(sections.iter().all(|section| section.problems.is_empty()))
}

/// The machine and the versions.
fn preamble(bench: &BenchSettings) -> String {
    let mut text = String::from(
        "Written by `bench/run`. All holders are measured in the same run, in turn and in changing order, because \
         machines are noisy. Ratios are between medians. A MB is 2²⁰ bytes.\n\n",
    );
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_matches(['\t', ' ', ':']);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().next().unwrap_or("").trim_start_matches("MemTotal:").trim().to_owned();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let file_system = said(Command::new("df").arg("--output=fstype").arg(&bench.base), 1);
    let _ = writeln!(text, "- date: {}", said(Command::new("date").arg("-u").arg("+%F %H:%M UTC"), 0));
    let _ = writeln!(text, "- machine: {cores} × {cpu}, {memory}");
    let _ = writeln!(text, "- kernel: {}", kernel.trim());
    let _ = writeln!(text, "- file system: {file_system}");
    let mut versions = Vec::new();
    for (name, _, arguments) in competitors::KNOWN.into_iter().filter(|(name, ..)| !name.contains(',')) {
        versions.push(match bench.programs.get(name) {
            Some(program) => said(Command::new(program).args(arguments), 0),
            None => format!("{name}: not installed"),
        });
    }
    let _ = writeln!(text, "- versions: {}", versions.join(" · "));
    let _ = writeln!(
        text,
        "- not measured: coder/agentapi. It is in no registry of packages, and building it takes Go 1.24 and modules \
         from the net."
    );
    if bench.is_quick {
        let _ = writeln!(text, "- **quick run: few rounds, do not believe the numbers**");
    }
    let _ = writeln!(text, "- load when it began: {}", load());
    text
}

fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// One line of what a command says, on either channel.
fn said(command: &mut Command, line: usize) -> String {
    let Ok(output) = command.output() else { return "unknown".to_owned() };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().nth(line).unwrap_or("unknown").trim().to_owned()
}
