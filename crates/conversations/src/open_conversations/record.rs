//! A holder's record on disk: one JSON object, as [`OpenConversation`] is written.
//!
//! Promise: a record of a newer version is read as far as this version knows it; a file that is not a valid record is
//! an error with the reason.
//! Not here: the place of the file (see [`super::OpenConversations`]).

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use berth_host::identity::ProcessIdentity;
use serde::{Deserialize, Serialize};

use super::OpenConversation;

/// The largest record that is read or written, in bytes.
const MAX_BYTES: u64 = 64 << 10;
/// The buffer size that fits most records, in bytes.
const USUAL_BYTES: usize = 2 << 10;

/// A process, as it stands in a record.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ProcessIdentity")]
pub(super) struct RecordedProcess {
    pid: u32,
    start_ticks: u64,
    boot: String,
}

pub(super) fn to_json(holder: &OpenConversation) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(holder)?;
    if json.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a holder's record would be too long"));
    }
    Ok(json)
}

/// Reads a record. `None` if the file is missing, or empty: a record written shortly before a power cut may
/// be left empty.
pub(super) fn read(path: &Path) -> Result<Option<OpenConversation>, String> {
    // Room for most records, so that one read is enough.
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
