//! Request log: one line for each request on standard error, if it is switched on.
//!
//! Promise: a line never has a token, a query, a prompt or an answer in it. A slow reader of standard error does not
//! delay the gateway: lines that find the queue full are dropped, and the next line gives their number.
//! Start with [`AccessLog::request`].

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use berth_api::Timestamp;
use berth_host::clock;
use serde_json::json;

use crate::trace::RequestTrace;

/// Number of queued lines.
const MAX_WAITING: usize = 1024;
/// Timeout for writing the last lines at the end of the process.
const FLUSH_PATIENCE: Duration = Duration::from_millis(300);

/// Format of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessLogFormat {
    /// Readable text.
    Text,
    /// One JSON object in each line.
    Json,
}

/// Writer of the log, with its queue.
#[derive(Debug)]
pub(crate) struct AccessLog {
    format: Option<AccessLogFormat>,
    lines: SyncSender<String>,
    dropped: AtomicU64,
    /// Number of queued lines.
    waiting: Arc<AtomicU64>,
}

/// Data of one request for the log.
pub(super) struct AccessLogLine<'a> {
    pub(super) method: &'a Method,
    pub(super) route: &'static str,
    pub(super) status: StatusCode,
    pub(super) took: Duration,
    pub(super) trace: &'a RequestTrace,
}

impl AccessLog {
    pub(super) fn start(format: Option<AccessLogFormat>) -> std::io::Result<Self> {
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

    /// Logs a request.
    pub(super) fn request(&self, line: &AccessLogLine<'_>) {
        let AccessLogLine { method, route, status, took, trace } = line;
        let (status, ms) = (status.as_u16(), took.as_micros() as f64 / 1000.0);
        tracing::info!(%method, route, status, ms, trace = trace.id, "answered");
        let Some(format) = self.format else { return };
        let place = trace.place.get().map_or("-", String::as_str);
        self.write(match format {
            AccessLogFormat::Text => {
                let time = Timestamp(clock::wall_ms());
                format!("{time} {method} {route} {status} {ms:.1}ms {} {}\n", trace.id, place.escape_debug())
            }
            AccessLogFormat::Json => object(json!({
                "event": "request", "method": method.as_str(), "route": route, "status": status, "ms": ms,
                "request_id": trace.id, "caller": place,
            })),
        });
    }

    /// Logs an event of the whole gateway, which is shown even if the request log is off.
    pub(crate) fn say(&self, event: &str, what: &str) {
        tracing::info!(event, "{what}");
        self.write(match self.format {
            Some(AccessLogFormat::Json) => object(json!({"event": event, "message": what})),
            Some(AccessLogFormat::Text) | None => {
                format!("{} the gateway {event}: {what}\n", Timestamp(clock::wall_ms()))
            }
        });
    }

    /// Waits until the queue is written, but at most for a short time: the process ends, or replaces its program.
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
                Some(AccessLogFormat::Json) => object(json!({"event": "lines-dropped", "count": dropped})),
                Some(AccessLogFormat::Text) | None => {
                    format!("({dropped} lines before this one were dropped)\n")
                }
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
