//! A holder's record on disk: one JSON object.
//!
//! Promise: a record of a newer version is understood as far as this one goes; what is none is an error with the
//! reason. Not here: where it is.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use berth_host::identity::Identity;
use serde::{Deserialize, Serialize};

use super::{Doing, Holder, Left};

/// The largest record. They have less than one.
const MAX_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Record {
    kind: String,
    native_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transcript: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<PathBuf>,
    pid: u32,
    start_ticks: u64,
    boot_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminal: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    opened_ms: u64,
    // Of an older version's record: it was there first, and may lack anything.
    #[serde(default)]
    opened_boot_ms: u64,
    #[serde(default)]
    loaded_boot_ms: u64,
    seen_ms: u64,
    doing: Doing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wrote_boot_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_held_up: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<Left>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    was_open_in: Vec<(u32, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

pub(super) fn to_json(holder: &Holder) -> io::Result<Vec<u8>> {
    let Holder { kind, native_id, transcript, cwd, identity, terminal, session, .. } = holder.clone();
    let Holder { opened_ms, opened_boot_ms, loaded_boot_ms, seen_ms, .. } = holder.clone();
    let Holder { doing, wrote_boot_ms, is_held_up, left, was_open_in, ended, .. } = holder.clone();
    let Identity { pid, start_ticks, boot_id } = identity;
    let record = Record {
        kind,
        native_id,
        transcript,
        cwd,
        pid,
        start_ticks,
        boot_id,
        terminal,
        session,
        opened_ms,
        opened_boot_ms,
        loaded_boot_ms,
        seen_ms,
        doing,
        wrote_boot_ms,
        is_held_up,
        left,
        was_open_in,
        ended,
    };
    let json = serde_json::to_vec(&record)?;
    if json.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a holder's record would be too long"));
    }
    Ok(json)
}

/// Reads one. `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Holder>, String> {
    let mut json = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut json)) {
        Ok(_) if json.len() as u64 > MAX_BYTES => return Err("it is too long".to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    }
    let record: Record = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let Record { kind, native_id, transcript, cwd, pid, start_ticks, boot_id, terminal, session, .. } =
        record;
    let Record { opened_ms, opened_boot_ms, loaded_boot_ms, seen_ms, .. } = record;
    let Record { doing, wrote_boot_ms, is_held_up, left, was_open_in, ended, .. } = record;
    let identity = Identity { pid, start_ticks, boot_id };
    Ok(Some(Holder {
        kind,
        native_id,
        transcript,
        cwd,
        identity,
        terminal,
        session,
        opened_ms,
        opened_boot_ms,
        loaded_boot_ms,
        seen_ms,
        doing,
        wrote_boot_ms,
        is_held_up,
        left,
        was_open_in,
        ended,
    }))
}
