//! What is taken out of a record on the way past it: who it is, where it hangs, which tools it is about.
//!
//! Promise: only what is really at the top of a record (or in its message, or its payload) counts, never what looks
//! like it inside of a text. Ids are kept as 64 bits: enough to tell millions of them apart, not to write them down.
//! Not here: what a record means for a conversation (see `survey`), the words in it (see `words`).
//! Start with [`Head`].

use std::ops::Range;

use crate::json::{Plain, Text, Visit};

/// An id, in short.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Id(pub(crate) u64);

impl Id {
    /// Of an id as it is written. Never 0.
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

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Type {
    /// Not said.
    #[default]
    None,
    User,
    Assistant,
    Attachment,
    System,
    /// Claude Code's note of where it is.
    LastPrompt,
    /// Codex: the beginning of a rollout.
    SessionMeta,
    ResponseItem,
    /// Any other: kept as it is.
    Other,
}

/// What an item of Codex is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Item {
    #[default]
    Other,
    Message,
    /// A call of a tool, of any kind.
    Call,
    /// What a tool gave back.
    Output,
}

/// Where a record says it hangs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Parent {
    /// It does not say.
    #[default]
    Unsaid,
    /// Nowhere: it is the first.
    Nobody,
    Of(Id),
}

/// What is known of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) kind: Type,
    pub(crate) uuid: Option<Id>,
    /// Where the value of `uuid` is in the file, with its quotes.
    pub(crate) uuid_at: Range<u64>,
    pub(crate) parent: Parent,
    /// Where the value of `parentUuid` is in the file, with its quotes.
    pub(crate) parent_at: Range<u64>,
    pub(crate) logical_parent: Option<Id>,
    /// `leafUuid` of a `last-prompt`.
    pub(crate) leaf: Option<Id>,
    pub(crate) session: Option<Id>,
    /// Where the values of `sessionId` and, of Codex, of the `id` and `session_id` in a `session_meta` are, with the
    /// quotes: of a key that is there twice the last one counts. Empty where there is none, or where it names another.
    pub(crate) session_at: [Range<u64>; 3],
    /// Codex: `session_id`, which is the id of the thread at the root of all. Older ones have no other.
    root: Option<Id>,
    pub(crate) is_sidechain: bool,
    pub(crate) is_meta: bool,
    pub(crate) is_summary: bool,
    pub(crate) is_boundary: bool,
    /// Made up by the agent where an answer is missing.
    pub(crate) is_synthetic: bool,
    /// The id of the model's message: several records may have parts of one.
    pub(crate) message: Option<Id>,
    /// Whether there is a `message`.
    pub(crate) has_message: bool,
    /// The tools that are asked for, and those whose result this is.
    pub(crate) uses: Vec<Id>,
    pub(crate) results: Vec<Id>,
    /// There were more of them than are kept.
    pub(crate) is_cut: bool,
    /// A result that says that the tool was interrupted, as an agent writes it that takes up where another broke off.
    pub(crate) is_interrupted_result: bool,
    pub(crate) has_timestamp: bool,
    pub(crate) has_payload: bool,
    pub(crate) item: Item,
    /// Codex: a message of the person.
    pub(crate) is_users: bool,
    path: [Key; DEPTH + 1],
    block: Block,
}

/// How many calls, and how many results, of one record are kept.
pub(crate) const MAX_TOOLS: usize = 4096;

/// How deep keys are followed: `message.content[].id`.
const DEPTH: usize = 4;

#[derive(Clone, Debug, Default)]
struct Block {
    kind: BlockKind,
    id: Option<Id>,
    tool_use_id: Option<Id>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum BlockKind {
    #[default]
    Other,
    ToolUse,
    ToolResult,
}

/// A key that is known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Key {
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

impl Key {
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

    /// A key that is written with escapes is the same key.
    #[cold]
    fn escaped(raw: &[u8]) -> Self {
        let quoted = [b"\"", raw, b"\""].concat();
        match serde_json::from_slice::<String>(&quoted) {
            Ok(plain) if !plain.contains('\\') => Self::of(plain.as_bytes()),
            Ok(_) | Err(_) => Self::Other,
        }
    }
}

impl Head {
    /// Forgets everything, and keeps the room.
    pub(crate) fn clear(&mut self) {
        let Self { mut uses, mut results, .. } = std::mem::take(self);
        uses.clear();
        results.clear();
        *self = Self { uses, results, ..Self::default() };
    }

    /// To be called when the record is over.
    pub(crate) fn finish(&mut self) {
        self.end_block();
        // Much is written down for people as well; what the model gets are the items.
        if self.kind != Type::ResponseItem {
            self.item = Item::Other;
        }
        match (self.item, self.block.id) {
            (Item::Call, Some(id)) => self.is_cut |= !put(&mut self.uses, id),
            (Item::Output, Some(id)) => self.is_cut |= !put(&mut self.results, id),
            (Item::Call | Item::Output | Item::Other | Item::Message, _) => {}
        }
        if self.has_payload && self.kind != Type::SessionMeta {
            self.session = None;
            self.session_at = Default::default();
        }
        if self.kind == Type::SessionMeta && self.session.is_none() {
            self.session = self.root;
        }
        // A sub-agent says under which thread it was started: that is somebody else's id, and stays.
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
            (BlockKind::ToolUse, Some(id), _) => !put(&mut self.uses, id),
            (BlockKind::ToolResult, _, Some(id)) => !put(&mut self.results, id),
            (BlockKind::ToolUse | BlockKind::ToolResult | BlockKind::Other, _, _) => false,
        };
    }
}

/// Keeps an id; whether there was room.
fn put(ids: &mut Vec<Id>, id: Id) -> bool {
    let has_room = ids.len() < MAX_TOOLS;
    if has_room {
        ids.push(id);
    }
    has_room
}

impl Visit for Head {
    fn key(&mut self, depth: usize, raw: &[u8]) {
        if depth > DEPTH {
            return;
        }
        // Below a key that is of no interest nothing is.
        let is_followed = match depth {
            1 => true,
            2 => matches!(self.path[1], Key::Message | Key::Payload),
            4 => self.path[1..4] == [Key::Message, Key::Content, Key::Element],
            _ => false,
        };
        self.path[depth] = if is_followed { Key::of(raw) } else { Key::Other };
    }

    fn open(&mut self, depth: usize, is_object: bool) {
        match depth {
            2 => {
                self.has_message |= self.path[1] == Key::Message && is_object;
                self.has_payload |= self.path[1] == Key::Payload && is_object;
            }
            4 if is_object && self.path[1..4] == [Key::Message, Key::Content, Key::Element] => {
                self.end_block();
            }
            _ => {}
        }
        if depth <= DEPTH {
            self.path[depth] = if is_object { Key::Other } else { Key::Element };
        }
    }

    fn text(&mut self, depth: usize, text: Text<'_>) {
        if depth == 0 || depth > DEPTH {
            return;
        }
        let key = self.path[depth];
        let Some(raw) = text.raw else { return };
        match depth {
            1 => self.top(key, raw, text.from..text.to),
            2 if self.path[1] == Key::Message && key == Key::Model => {
                self.is_synthetic = raw == b"<synthetic>"
            }
            2 if self.path[1] == Key::Message && key == Key::Id => self.message = Some(Id::of(raw)),
            2 if self.path[1] == Key::Payload => match key {
                Key::Type => self.item = item(raw),
                Key::Role => self.is_users = raw == b"user",
                Key::CallId => self.block.id = Some(Id::of(raw)),
                Key::Id => {
                    self.session = Some(Id::of(raw));
                    self.session_at[1] = text.from..text.to;
                }
                Key::SessionIdSnake => {
                    self.root = Some(Id::of(raw));
                    self.session_at[2] = text.from..text.to;
                }
                _ => {}
            },
            4 if self.path[1..4] == [Key::Message, Key::Content, Key::Element] => match key {
                Key::Type if raw == b"tool_use" => self.block.kind = BlockKind::ToolUse,
                Key::Type if raw == b"tool_result" => self.block.kind = BlockKind::ToolResult,
                Key::Id => self.block.id = Some(Id::of(raw)),
                Key::ToolUseId => self.block.tool_use_id = Some(Id::of(raw)),
                _ => {}
            },
            _ => {}
        }
    }

    fn plain(&mut self, depth: usize, plain: Plain, from: u64, to: u64) {
        if depth != 1 {
            return;
        }
        match (self.path[1], plain) {
            (Key::ParentUuid, _) => {
                self.parent = if plain == Plain::Null { Parent::Nobody } else { Parent::Unsaid };
                self.parent_at = from..to;
            }
            (Key::IsSidechain, _) => self.is_sidechain = plain == Plain::True,
            (Key::IsMeta, _) => self.is_meta = plain == Plain::True,
            (Key::IsCompactSummary, _) => self.is_summary = plain == Plain::True,
            (_, _) => {}
        }
    }
}

impl Head {
    fn top(&mut self, key: Key, raw: &[u8], at: Range<u64>) {
        match key {
            Key::Type => {
                self.kind = match raw {
                    b"user" => Type::User,
                    b"assistant" => Type::Assistant,
                    b"attachment" => Type::Attachment,
                    b"system" => Type::System,
                    b"last-prompt" => Type::LastPrompt,
                    b"session_meta" => Type::SessionMeta,
                    b"response_item" => Type::ResponseItem,
                    _ => Type::Other,
                };
            }
            Key::Subtype => self.is_boundary = raw == b"compact_boundary",
            Key::Uuid => {
                self.uuid = Some(Id::of(raw));
                self.uuid_at = at;
            }
            Key::ParentUuid => {
                self.parent = Parent::Of(Id::of(raw));
                self.parent_at = at;
            }
            Key::LogicalParentUuid => self.logical_parent = Some(Id::of(raw)),
            Key::LeafUuid => self.leaf = Some(Id::of(raw)),
            Key::SessionId => {
                self.session = Some(Id::of(raw));
                self.session_at[0] = at;
            }
            Key::Timestamp => self.has_timestamp = true,
            Key::ToolDenialKind => self.is_interrupted_result = raw == b"interrupted",
            _ => {}
        }
    }
}

fn item(raw: &[u8]) -> Item {
    match raw {
        b"message" => Item::Message,
        b"tool_search_output" => Item::Output,
        _ if raw.ends_with(b"_call_output") => Item::Output,
        _ if raw.ends_with(b"_call") => Item::Call,
        _ => Item::Other,
    }
}
