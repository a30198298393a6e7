//! The agent's output on its way to the disk: the files, and the bytes that wait for room there.
//!
//! Promise: output is on disk before a client sees it or the keeper acts on it; while the disk is full nothing more is read.

use std::io;

use berth_api::message::WindowSize;
use berth_store::output::{OutputChange, OutputLog};

use super::now;

/// The bytes that are read at a time before other work gets its turn.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// The point up to which to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadUntil {
    /// Until there is probably no more; if there is, the kernel reports it again.
    Quiet,
    /// Until there is certainly no more.
    Empty,
}

/// The result of reading from an agent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct OutputRead {
    pub(super) bytes: usize,
    /// True if there may be more.
    pub(super) has_more: bool,
    /// True if the agent closed its side.
    pub(super) is_closed: bool,
}

/// The result of storing output.
#[derive(Debug, Default)]
pub(super) struct StoredOutput {
    pub(super) bytes: usize,
    /// True if the disk did not take all of it.
    pub(super) is_cut: bool,
    /// True if another output file is in use now.
    pub(super) has_new_file: bool,
    /// Each time old output was dropped: the offset before which nothing is kept.
    pub(super) dropped_before: Vec<u64>,
}

/// The output files of a session.
#[derive(Debug)]
pub(super) struct OutputRecorder {
    log: OutputLog,
    /// Output that did not fit on the disk.
    unwritten: Vec<u8>,
    /// Memory to read into, kept while the agent is busy.
    buffer: Vec<u8>,
}

impl OutputRecorder {
    pub(super) fn new(log: OutputLog) -> Self {
        Self { log, unwritten: Vec::new(), buffer: Vec::new() }
    }

    /// The offset of the next byte.
    pub(super) fn end(&self) -> u64 {
        self.log.end()
    }

    /// The name of the file in use.
    pub(super) fn file_name(&self) -> Option<String> {
        self.log.file_name()
    }

    /// True while output waits for room on the disk. Nothing more may be read meanwhile.
    pub(super) fn is_stuck(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Notes the size of the terminal from here on.
    pub(super) fn set_size(&mut self, WindowSize { rows, cols }: WindowSize) {
        self.log.set_size(rows, cols);
    }

    /// Stores output. Bytes that the disk rejects are kept for later.
    pub(super) fn store(&mut self, bytes: &[u8]) -> StoredOutput {
        let file_before = self.log.file_start();
        let mut stored = StoredOutput::default();
        while stored.bytes < bytes.len() {
            match self.log.append(&bytes[stored.bytes..], now()) {
                Ok((0, _)) | Err(_) => break,
                Ok((count, remark)) => {
                    stored.bytes += count;
                    let dropped = remark.map(|OutputChange::Dropped { before }| before);
                    stored.dropped_before.extend(dropped);
                }
            }
        }
        stored.is_cut = stored.bytes < bytes.len();
        if stored.is_cut {
            self.unwritten = bytes[stored.bytes..].to_vec();
        }
        stored.has_new_file = self.log.file_start() != file_before;
        stored
    }

    /// The output that did not fit, to be stored again.
    pub(super) fn take_unwritten(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unwritten)
    }

    /// Memory to read into, to be given back with [`Self::keep_buffer`].
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    pub(super) fn keep_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Gives memory back while nothing is read.
    pub(super) fn shrink(&mut self) {
        self.buffer = Vec::new();
    }

    /// The time at which output has to be synced, on the boot clock.
    pub(super) fn sync_due_ms(&self) -> Option<u64> {
        self.log.sync_due_ms()
    }

    pub(super) fn sync_if_due(&mut self, now_ms: u64) -> io::Result<()> {
        self.log.sync_if_due(now_ms)
    }

    /// Ends the last file of the run.
    pub(super) fn finish(&mut self) {
        let _ = self.log.finish();
    }
}
