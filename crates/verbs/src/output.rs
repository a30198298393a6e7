//! A session's raw output, piece by piece.

use berth_api::Problem;
use berth_core::SessionId;

use crate::VerbContext;

/// A part of a session's output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputPiece {
    /// Offset of the first byte: after the requested one if that is not kept any more.
    pub from: u64,
    /// The bytes of this part.
    pub bytes: Vec<u8>,
    /// End of the whole output so far.
    pub end: u64,
}

/// Reads at most `limit` bytes from the offset `from` on.
pub fn read(ctx: &VerbContext, id: &SessionId, from: u64, limit: usize) -> Result<OutputPiece, Problem> {
    let session = ctx.home.session(id);
    if !session.has_events()? {
        return Err(Problem::not_found(format!("there is no session {id} any more")));
    }
    let output = session.output();
    let trouble =
        |error: std::io::Error| Problem::refused(format!("cannot read {}: {error}", output.display()));
    let mut piece = OutputPiece { from, bytes: Vec::new(), end: 0 };
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
            // A gap: the bytes after it do not continue those before it.
            break;
        }
        piece.bytes.extend_from_slice(&buffer[..count]);
        offset = really + count as u64;
    }
    // Read last, so that it is never before the end of this part.
    piece.end = output.end().map_err(trouble)?;
    Ok(piece)
}
