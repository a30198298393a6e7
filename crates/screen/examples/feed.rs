//! Benchmark: how fast a screen takes a stream, in MB per second of CPU time, next to the bare emulator.
//!
//! `cargo run --release -p berth-screen --example feed`
//!
//! Also reports how much memory a screen keeps, from `/proc`, and how long one restore takes.

use std::time::Duration;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::Processor;
use berth_screen::{Screen, ScreenSize, StreamSplitter};

const SIZE: ScreenSize = ScreenSize { rows: 50, cols: 180 };
const CHUNK_BYTES: usize = 4096;
const STREAM_BYTES: usize = 8 << 20;
const ROUNDS: usize = 5;
/// Shortest time of a round: the kernel counts CPU time in steps of a few milliseconds.
const ROUND: Duration = Duration::from_millis(400);

fn main() {
    println!(
        "{:<24}{:>10}{:>10}{:>10}{:>10}   (MB per CPU second)",
        "", "emulator", "splitter", "screen", "keeper"
    );
    for (name, stream) in
        [("plain log lines", plain()), ("coloured log lines", coloured()), ("redraws", redraws())]
    {
        let emulator = speed(&stream, || {
            let config = Config { scrolling_history: 0, ..Config::default() };
            let mut term = Term::new(config, &SIZE, VoidListener);
            let mut parser: Processor = Processor::new();
            move |chunk: &[u8]| parser.advance(&mut term, chunk)
        });
        let splitter = speed(&stream, || {
            let mut splitter = StreamSplitter::new();
            move |chunk: &[u8]| {
                std::hint::black_box(splitter.push(chunk).len());
            }
        });
        let screen = speed(&stream, || {
            let mut screen = Screen::new(SIZE);
            move |chunk: &[u8]| screen.feed(chunk)
        });
        // The work of a keeper with every read.
        let keeper = speed(&stream, || {
            let mut screen = Screen::new(SIZE);
            let mut splitter = StreamSplitter::new();
            move |chunk: &[u8]| {
                std::hint::black_box(splitter.push(chunk).len());
                screen.feed(chunk);
                std::hint::black_box(screen.take_answers());
            }
        });
        println!("{name:<24}{emulator:>10.0}{splitter:>10.0}{screen:>10.0}{keeper:>10.0}");
    }
    memory();
    restoring();
}

/// The best of a few rounds; a fresh consumer each time.
fn speed<F: FnMut(&[u8])>(stream: &[u8], fresh: impl Fn() -> F) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let mut feed = fresh();
        let mut fed_bytes = 0;
        let before = cpu_time();
        while cpu_time() - before < ROUND {
            stream.chunks(CHUNK_BYTES).for_each(&mut feed);
            fed_bytes += stream.len();
        }
        best = best.max(fed_bytes as f64 / 1e6 / (cpu_time() - before).as_secs_f64());
    }
    best
}

/// Nanoseconds this process has run, which other processes on the machine do not disturb.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("this measures on Linux");
    let nanoseconds = stat.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first field of schedstat is a number"))
}

fn memory() {
    const COUNT: usize = 50;
    let streams = [plain(), coloured(), redraws()];
    let before = resident_bytes();
    let mut screens: Vec<Screen> = (0..COUNT).map(|_| Screen::new(SIZE)).collect();
    let fresh = resident_bytes();
    for stream in &streams {
        for screen in &mut screens {
            stream[..1 << 20].chunks(CHUNK_BYTES).for_each(|chunk| screen.feed(chunk));
        }
    }
    let flooded = resident_bytes();
    for screen in &mut screens {
        screen.resize(ScreenSize { rows: 60, cols: 180 });
        screen.resize(SIZE);
        screen.text();
    }
    let looked_at = resident_bytes();
    let each = |now: usize| now.saturating_sub(before) / COUNT / 1024;
    println!(
        "KiB per screen: {} fresh, {} after floods, {} after resizes",
        each(fresh),
        each(flooded),
        each(looked_at)
    );
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("this measures on Linux");
    let pages: usize =
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("statm has a second field");
    pages * 4096
}

fn restoring() {
    const TIMES: u32 = 5000;
    let mut screen = Screen::new(SIZE);
    screen.feed(&redraws()[..1 << 20]);
    let before = cpu_time();
    let mut bytes = 0;
    for _ in 0..TIMES {
        bytes = screen.restore().len();
    }
    println!("restore: {bytes} bytes in {:?}", (cpu_time() - before) / TIMES);
}

fn plain() -> Vec<u8> {
    repeat(|number| {
        format!(
            "2026-11-20T10:00:{:02}Z INFO worker-{}: finished item {number} in {} ms, queue 17\r\n",
            number % 60,
            number % 8,
            number % 997
        )
    })
}

fn coloured() -> Vec<u8> {
    repeat(|number| {
        format!(
            "\x1b[2m2026-11-20T10:00:{:02}Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mworker-{}\x1b[0m: finished item \x1b[36m{number}\x1b[0m in {} ms\r\n",
            number % 60,
            number % 8,
            number % 997
        )
    })
}

/// An agent's full-screen frames: moves, colours, short text, synchronized updates.
fn redraws() -> Vec<u8> {
    repeat(|number| {
        let mut frame = String::from("\x1b[?2026h\x1b[?25l\x1b[H");
        for row in 1..=SIZE.rows {
            let shade = (usize::from(row) * 5 + number) % 256;
            frame += &format!(
                "\x1b[{row};1H\x1b[38;5;{shade}m│\x1b[0m step {number} \x1b[1mbuild\x1b[22m crates/screen/src/lib.rs \x1b[48;2;40;{shade};40m +{row} \x1b[0m\x1b[K"
            );
        }
        frame + "\x1b[12;40H\x1b[?25h\x1b[?2026l"
    })
}

fn repeat(line: impl Fn(usize) -> String) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut number = 0;
    while stream.len() < STREAM_BYTES {
        stream.extend_from_slice(line(number).as_bytes());
        number += 1;
    }
    stream
}
