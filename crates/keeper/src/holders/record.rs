//! A holder's record on disk: one JSON object, as [`Holder`] is written.
//!
//! Promise: a record of a newer version is understood as far as this one goes; what is none is an error with the
//! reason. Not here: where it is.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use berth_host::identity::Identity;
use serde::{Deserialize, Serialize};

use super::Holder;

/// The largest record. They have less than one.
const MAX_BYTES: u64 = 64 << 10;
/// More than most of them have.
const USUAL_BYTES: usize = 2 << 10;

/// A process, as it stands in a record.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Identity")]
pub(super) struct Process {
    pid: u32,
    start_ticks: u64,
    boot: String,
}

pub(super) fn to_json(holder: &Holder) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(holder)?;
    if json.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a holder's record would be too long"));
    }
    Ok(json)
}

/// Reads one. `None` if there is none: of one that was written shortly before a power cut an empty file may be left.
pub(super) fn read(path: &Path) -> Result<Option<Holder>, String> {
    // Room for most of them, so that one read is enough.
    let mut json = Vec::with_capacity(USUAL_BYTES);
    match fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut json)) {
        Ok(0) => return Ok(None),
        Ok(_) if json.len() as u64 > MAX_BYTES => return Err("it is too long".to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    }
    serde_json::from_slice(&json).map(Some).map_err(|error| error.to_string())
}
