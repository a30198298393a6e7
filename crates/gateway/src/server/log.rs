//! One line for each request on standard error, if somebody wants that.
//!
//! Promise: no token, no query and nothing that was said is ever in it. Whoever reads standard error slowly holds up
//! nobody: lines that find the queue full are dropped, and counted in the next one that is not.
//! Start with [`Log::request`].

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use berth_api::Timestamp;
use berth_host::clock;
use serde_json::json;

use crate::trace::Trace;

/// How many lines may wait for whoever reads them.
const MAX_WAITING: usize = 1024;
/// How long the last lines may take to be written.
const FLUSH_PATIENCE: Duration = Duration::from_millis(300);

/// How a line looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one object each.
    Json,
}

impl LogFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Where the lines go.
#[derive(Debug)]
pub(crate) struct Log {
    format: Option<LogFormat>,
    lines: SyncSender<String>,
    dropped: AtomicU64,
    /// How many lines are on their way.
    waiting: Arc<AtomicU64>,
}

/// What is told of a request.
pub(super) struct Line<'a> {
    pub(super) method: &'a Method,
    pub(super) route: &'static str,
    pub(super) status: StatusCode,
    pub(super) took: Duration,
    pub(super) trace: &'a Trace,
}

impl Log {
    pub(super) fn start(format: Option<LogFormat>) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel::<String>(MAX_WAITING);
        let count = Arc::new(AtomicU64::new(0));
        let left = count.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            let mut out = std::io::stderr();
            for line in waiting {
                let _ = out.write_all(line.as_bytes());
                left.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self { format, lines, dropped: AtomicU64::new(0), waiting: count })
    }

    pub(super) fn is_on(&self) -> bool {
        self.format.is_some()
    }

    /// Tells of a request.
    pub(super) fn request(&self, line: &Line<'_>) {
        let Line { method, route, status, took, trace } = line;
        let (status, ms) = (status.as_u16(), took.as_micros() as f64 / 1000.0);
        tracing::info!(%method, route, status, ms, trace = trace.id, "answered");
        let Some(format) = self.format else { return };
        let place = trace.place.get().map_or("-", String::as_str);
        self.write(match format {
            LogFormat::Text => {
                let time = Timestamp(clock::wall_ms());
                format!("{time} {method} {route} {status} {ms:.1}ms {} {}\n", trace.id, place.escape_debug())
            }
            LogFormat::Json => object(json!({
                "event": "request", "method": method.as_str(), "route": route, "status": status, "ms": ms,
                "request_id": trace.id, "caller": place,
            })),
        });
    }

    /// Tells of something that concerns the gateway as a whole. People hear of it in any case.
    pub(crate) fn say(&self, event: &str, what: &str) {
        tracing::info!(event, "{what}");
        self.write(match self.format {
            Some(LogFormat::Json) => object(json!({"event": event, "message": what})),
            Some(LogFormat::Text) | None => {
                format!("{} the gateway {event}: {what}\n", Timestamp(clock::wall_ms()))
            }
        });
    }

    /// Waits until all is written, but not for a reader that does not read: the process ends, or becomes another.
    pub(super) fn flush(&self) {
        let until = Instant::now() + FLUSH_PATIENCE;
        while self.waiting.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn write(&self, mut line: String) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            line.push_str(&match self.format {
                Some(LogFormat::Json) => object(json!({"event": "lines-dropped", "count": dropped})),
                Some(LogFormat::Text) | None => format!("({dropped} lines before this one were dropped)\n"),
            });
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.lines.try_send(line) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }
}

fn object(mut line: serde_json::Value) -> String {
    line["time"] = Timestamp(clock::wall_ms()).to_string().into();
    format!("{line}\n")
}
