//! A session's raw output, piece by piece.

use berth_api::{Code, Problem};
use berth_core::SessionId;

use crate::Ctx;

/// Some of a session's output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where it begins: behind what was asked for, if that is no longer kept.
    pub from: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How far the output reaches in all.
    pub end: u64,
}

/// Reads at most `limit` bytes from the offset `from` on.
pub fn read(ctx: &Ctx, id: &SessionId, from: u64, limit: usize) -> Result<Piece, Problem> {
    let session = ctx.home.session(id);
    if !session.has_events()? {
        return Err(Problem::new(Code::NotFound, format!("there is no session {id} any more")));
    }
    let output = session.output();
    let trouble = |error: std::io::Error| {
        Problem::new(Code::Refused, format!("cannot read {}: {error}", output.display()))
    };
    let mut piece = Piece { from, bytes: Vec::new(), end: 0 };
    let mut offset = from;
    while piece.bytes.len() < limit {
        let mut buffer = vec![0; (limit - piece.bytes.len()).min(256 * 1024)];
        let (count, really) = output.read_at(offset, &mut buffer).map_err(trouble)?;
        if count == 0 {
            break;
        }
        if piece.bytes.is_empty() {
            piece.from = really;
        } else if really != offset {
            // A hole: what comes behind it is not what follows.
            break;
        }
        piece.bytes.extend_from_slice(&buffer[..count]);
        offset = really + count as u64;
    }
    // Looked at last, so that it is never before the end of what was read.
    piece.end = output.end().map_err(trouble)?;
    Ok(piece)
}
