//! Head of a record: the ids, the parent and the tools that are extracted while the record is read.
//!
//! Promise: only fields at the top of a record (or in its message, or its payload) count, never similar text inside of
//! a string. Ids are kept as 64 bits: enough to tell millions of them apart, not to write them down.
//! Not here: the meaning of a record for a conversation (see `survey`), its words (see `words`).
//! Start with [`RecordSummary`].

use std::ops::Range;

use crate::json::{JsonString, JsonVisitor, ScalarKind};

/// A hashed id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct IdHash(pub(crate) u64);

impl IdHash {
    /// Hashes an id as it is written. Never 0.
    pub(crate) fn of(text: &[u8]) -> Self {
        // FNV-1a over words, and a finish that spreads what differs over all bits.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut words = text.chunks_exact(8);
        for word in &mut words {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        for byte in words.remainder() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        Self((hash ^ (hash >> 32)).max(1))
    }
}

/// Type of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RecordType {
    /// The record has no type.
    #[default]
    None,
    User,
    Assistant,
    Attachment,
    System,
    /// Claude Code's note of its place in the conversation.
    LastPrompt,
    /// Codex: the beginning of a rollout.
    SessionMeta,
    ResponseItem,
    /// Any other: kept as it is.
    Other,
}

/// Type of an item of Codex.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum ItemType {
    #[default]
    Other,
    Message,
    /// A tool call, of any kind.
    Call,
    /// A result of a tool.
    Output,
}

/// Parent of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RecordParent {
    /// The record does not name a parent.
    #[default]
    Unsaid,
    /// The record says that it has no parent: it is the first.
    Root,
    Of(IdHash),
}

/// Extracted fields of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordSummary {
    pub(crate) kind: RecordType,
    pub(crate) uuid: Option<IdHash>,
    /// Place of the value of `uuid` in the file, with its quotes.
    pub(crate) uuid_at: Range<u64>,
    pub(crate) parent: RecordParent,
    /// Place of the value of `parentUuid` in the file, with its quotes.
    pub(crate) parent_at: Range<u64>,
    pub(crate) logical_parent: Option<IdHash>,
    /// `leafUuid` of a `last-prompt`.
    pub(crate) leaf: Option<IdHash>,
    pub(crate) session: Option<IdHash>,
    /// Places of the values of `sessionId` and, for Codex, of the `id` and `session_id` in a `session_meta`, with the
    /// quotes: of a repeated key the last one counts. Empty for a missing key, or one that names another session.
    pub(crate) session_at: [Range<u64>; 3],
    /// Codex: `session_id`, the id of the thread at the root of all. Older versions write only this id.
    root: Option<IdHash>,
    pub(crate) is_sidechain: bool,
    pub(crate) is_meta: bool,
    pub(crate) is_summary: bool,
    pub(crate) is_boundary: bool,
    /// True for a text that the agent made up where an answer is missing.
    pub(crate) is_synthetic: bool,
    /// Id of the model's message: several records may have parts of one message.
    pub(crate) message: Option<IdHash>,
    /// True if the record has a `message`.
    pub(crate) has_message: bool,
    /// Tools that the record calls, and those whose results it has.
    pub(crate) uses: Vec<IdHash>,
    pub(crate) results: Vec<IdHash>,
    /// True if the record has more tools than are kept.
    pub(crate) is_cut: bool,
    /// True for a result that says that the tool was interrupted, as a resuming agent writes it.
    pub(crate) is_interrupted_result: bool,
    pub(crate) has_timestamp: bool,
    pub(crate) has_payload: bool,
    pub(crate) item: ItemType,
    /// Codex: true for a message of the user.
    pub(crate) is_users: bool,
    path: [RecordKey; DEPTH + 1],
    block: BlockFields,
}

/// Limit for the calls, and for the results, of one record.
pub(crate) const MAX_TOOLS: usize = 4096;

/// Depth to which keys are followed: `message.content[].id`.
const DEPTH: usize = 4;

#[derive(Clone, Debug, Default)]
struct BlockFields {
    kind: BlockKind,
    id: Option<IdHash>,
    tool_use_id: Option<IdHash>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum BlockKind {
    #[default]
    Other,
    ToolUse,
    ToolResult,
}

/// A key of interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum RecordKey {
    #[default]
    Other,
    /// An element of an array.
    Element,
    Type,
    Subtype,
    Uuid,
    ParentUuid,
    LogicalParentUuid,
    LeafUuid,
    SessionId,
    SessionIdSnake,
    IsSidechain,
    IsMeta,
    IsCompactSummary,
    Timestamp,
    Message,
    Content,
    Payload,
    Model,
    Id,
    ToolUseId,
    ToolDenialKind,
    CallId,
    Role,
}

impl RecordKey {
    fn of(raw: &[u8]) -> Self {
        match raw {
            b"type" => Self::Type,
            b"subtype" => Self::Subtype,
            b"uuid" => Self::Uuid,
            b"parentUuid" => Self::ParentUuid,
            b"logicalParentUuid" => Self::LogicalParentUuid,
            b"leafUuid" => Self::LeafUuid,
            b"sessionId" => Self::SessionId,
            b"session_id" => Self::SessionIdSnake,
            b"isSidechain" => Self::IsSidechain,
            b"isMeta" => Self::IsMeta,
            b"isCompactSummary" => Self::IsCompactSummary,
            b"timestamp" => Self::Timestamp,
            b"message" => Self::Message,
            b"content" => Self::Content,
            b"payload" => Self::Payload,
            b"model" => Self::Model,
            b"id" => Self::Id,
            b"tool_use_id" => Self::ToolUseId,
            b"toolDenialKind" => Self::ToolDenialKind,
            b"call_id" => Self::CallId,
            b"role" => Self::Role,
            _ if raw.contains(&b'\\') => Self::escaped(raw),
            _ => Self::Other,
        }
    }

    /// A key that is written with escapes equals the plain one.
    #[cold]
    fn escaped(raw: &[u8]) -> Self {
        let quoted = [b"\"", raw, b"\""].concat();
        match serde_json::from_slice::<String>(&quoted) {
            Ok(plain) if !plain.contains('\\') => Self::of(plain.as_bytes()),
            Ok(_) | Err(_) => Self::Other,
        }
    }
}

impl RecordSummary {
    /// Resets all fields, and keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        let Self { mut uses, mut results, .. } = std::mem::take(self);
        uses.clear();
        results.clear();
        *self = Self { uses, results, ..Self::default() };
    }

    /// Completes the head at the end of the record.
    pub(crate) fn finish(&mut self) {
        self.end_block();
        // Codex records many texts a second time for people; only the items go to the model.
        if self.kind != RecordType::ResponseItem {
            self.item = ItemType::Other;
        }
        match (self.item, self.block.id) {
            (ItemType::Call, Some(id)) => self.is_cut |= !push_bounded(&mut self.uses, id),
            (ItemType::Output, Some(id)) => self.is_cut |= !push_bounded(&mut self.results, id),
            (ItemType::Call | ItemType::Output | ItemType::Other | ItemType::Message, _) => {}
        }
        if self.has_payload && self.kind != RecordType::SessionMeta {
            self.session = None;
            self.session_at = Default::default();
        }
        if self.kind == RecordType::SessionMeta && self.session.is_none() {
            self.session = self.root;
        }
        // A sub-agent names the thread that started it: that is another thread's id, and stays.
        if self.root != self.session {
            self.session_at[2] = 0..0;
        }
    }

    fn end_block(&mut self) {
        if self.has_payload {
            return;
        }
        let block = std::mem::take(&mut self.block);
        self.is_cut |= match (block.kind, block.id, block.tool_use_id) {
            (BlockKind::ToolUse, Some(id), _) => !push_bounded(&mut self.uses, id),
            (BlockKind::ToolResult, _, Some(id)) => !push_bounded(&mut self.results, id),
            (BlockKind::ToolUse | BlockKind::ToolResult | BlockKind::Other, _, _) => false,
        };
    }
}

/// Keeps an id; false if the list is full.
fn push_bounded(ids: &mut Vec<IdHash>, id: IdHash) -> bool {
    let has_room = ids.len() < MAX_TOOLS;
    if has_room {
        ids.push(id);
    }
    has_room
}

impl JsonVisitor for RecordSummary {
    fn key(&mut self, depth: usize, raw: &[u8]) {
        if depth > DEPTH {
            return;
        }
        // Below a key without interest nothing is followed.
        let is_followed = match depth {
            1 => true,
            2 => matches!(self.path[1], RecordKey::Message | RecordKey::Payload),
            4 => self.path[1..4] == [RecordKey::Message, RecordKey::Content, RecordKey::Element],
            _ => false,
        };
        self.path[depth] = if is_followed { RecordKey::of(raw) } else { RecordKey::Other };
    }

    fn open(&mut self, depth: usize, is_object: bool) {
        match depth {
            2 => {
                self.has_message |= self.path[1] == RecordKey::Message && is_object;
                self.has_payload |= self.path[1] == RecordKey::Payload && is_object;
            }
            4 if is_object
                && self.path[1..4] == [RecordKey::Message, RecordKey::Content, RecordKey::Element] =>
            {
                self.end_block();
            }
            _ => {}
        }
        if depth <= DEPTH {
            self.path[depth] = if is_object { RecordKey::Other } else { RecordKey::Element };
        }
    }

    fn text(&mut self, depth: usize, text: JsonString<'_>) {
        if depth == 0 || depth > DEPTH {
            return;
        }
        let key = self.path[depth];
        let Some(raw) = text.raw else { return };
        match depth {
            1 => self.top(key, raw, text.from..text.to),
            2 if self.path[1] == RecordKey::Message && key == RecordKey::Model => {
                self.is_synthetic = raw == b"<synthetic>"
            }
            2 if self.path[1] == RecordKey::Message && key == RecordKey::Id => {
                self.message = Some(IdHash::of(raw))
            }
            2 if self.path[1] == RecordKey::Payload => match key {
                RecordKey::Type => self.item = item(raw),
                RecordKey::Role => self.is_users = raw == b"user",
                RecordKey::CallId => self.block.id = Some(IdHash::of(raw)),
                RecordKey::Id => {
                    self.session = Some(IdHash::of(raw));
                    self.session_at[1] = text.from..text.to;
                }
                RecordKey::SessionIdSnake => {
                    self.root = Some(IdHash::of(raw));
                    self.session_at[2] = text.from..text.to;
                }
                _ => {}
            },
            4 if self.path[1..4] == [RecordKey::Message, RecordKey::Content, RecordKey::Element] => match key
            {
                RecordKey::Type if raw == b"tool_use" => self.block.kind = BlockKind::ToolUse,
                RecordKey::Type if raw == b"tool_result" => self.block.kind = BlockKind::ToolResult,
                RecordKey::Id => self.block.id = Some(IdHash::of(raw)),
                RecordKey::ToolUseId => self.block.tool_use_id = Some(IdHash::of(raw)),
                _ => {}
            },
            _ => {}
        }
    }

    fn plain(&mut self, depth: usize, plain: ScalarKind, from: u64, to: u64) {
        if depth != 1 {
            return;
        }
        match (self.path[1], plain) {
            (RecordKey::ParentUuid, _) => {
                self.parent =
                    if plain == ScalarKind::Null { RecordParent::Root } else { RecordParent::Unsaid };
                self.parent_at = from..to;
            }
            (RecordKey::IsSidechain, _) => self.is_sidechain = plain == ScalarKind::True,
            (RecordKey::IsMeta, _) => self.is_meta = plain == ScalarKind::True,
            (RecordKey::IsCompactSummary, _) => self.is_summary = plain == ScalarKind::True,
            (_, _) => {}
        }
    }
}

impl RecordSummary {
    fn top(&mut self, key: RecordKey, raw: &[u8], at: Range<u64>) {
        match key {
            RecordKey::Type => {
                self.kind = match raw {
                    b"user" => RecordType::User,
                    b"assistant" => RecordType::Assistant,
                    b"attachment" => RecordType::Attachment,
                    b"system" => RecordType::System,
                    b"last-prompt" => RecordType::LastPrompt,
                    b"session_meta" => RecordType::SessionMeta,
                    b"response_item" => RecordType::ResponseItem,
                    _ => RecordType::Other,
                };
            }
            RecordKey::Subtype => self.is_boundary = raw == b"compact_boundary",
            RecordKey::Uuid => {
                self.uuid = Some(IdHash::of(raw));
                self.uuid_at = at;
            }
            RecordKey::ParentUuid => {
                self.parent = RecordParent::Of(IdHash::of(raw));
                self.parent_at = at;
            }
            RecordKey::LogicalParentUuid => self.logical_parent = Some(IdHash::of(raw)),
            RecordKey::LeafUuid => self.leaf = Some(IdHash::of(raw)),
            RecordKey::SessionId => {
                self.session = Some(IdHash::of(raw));
                self.session_at[0] = at;
            }
            RecordKey::Timestamp => self.has_timestamp = true,
            RecordKey::ToolDenialKind => self.is_interrupted_result = raw == b"interrupted",
            _ => {}
        }
    }
}

fn item(raw: &[u8]) -> ItemType {
    match raw {
        b"message" => ItemType::Message,
        b"tool_search_output" => ItemType::Output,
        _ if raw.ends_with(b"_call_output") => ItemType::Output,
        _ if raw.ends_with(b"_call") => ItemType::Call,
        _ => ItemType::Other,
    }
}
