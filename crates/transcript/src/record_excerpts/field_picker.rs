//! Parser that takes a few texts out of a record, and skips the rest.
//!
//! Promise: other fields are never held in memory, however large they are; a value of an unexpected type is empty, and
//! no error. Start with [`PickedRecord`].

use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that is picked from any JSON.
pub(super) trait FieldPicker: Default {
    fn text(&mut self, _text: &str) {}

    fn field<'de, M: MapAccess<'de>>(&mut self, _key: &str, map: &mut M) -> Result<(), M::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }

    /// Reads another element; false at the end.
    fn element<'de, S: SeqAccess<'de>>(&mut self, seq: &mut S) -> Result<bool, S::Error> {
        Ok(seq.next_element::<IgnoredAny>()?.is_some())
    }
}

/// Wrapper that parses a picked value.
pub(super) struct PickedValue<T>(pub(super) T);

impl<'de, T: FieldPicker> Deserialize<'de> for PickedValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PickVisitor(PhantomData)).map(PickedValue)
    }
}

struct PickVisitor<T>(PhantomData<T>);

impl<'de, T: FieldPicker> Visitor<'de> for PickVisitor<T> {
    type Value = T;

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("anything")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        let mut picked = T::default();
        picked.text(text);
        Ok(picked)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<T, M::Error> {
        let mut picked = T::default();
        while let Some(key) = map.next_key::<String>()? {
            picked.field(&key, &mut map)?;
        }
        Ok(picked)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<T, S::Error> {
        let mut picked = T::default();
        while picked.element(&mut seq)? {}
        Ok(picked)
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }
}

/// A string; other types give `None`.
impl FieldPicker for Option<String> {
    fn text(&mut self, text: &str) {
        *self = Some(text.to_owned());
    }
}

fn value<'de, T: FieldPicker, M: MapAccess<'de>>(map: &mut M) -> Result<T, M::Error> {
    map.next_value::<PickedValue<T>>().map(|picked| picked.0)
}

/// A record of either agent.
#[derive(Default)]
pub(super) struct PickedRecord {
    pub(super) uuid: Option<String>,
    pub(super) timestamp: Option<String>,
    pub(super) session: Option<String>,
    pub(super) entrypoint: Option<String>,
    pub(super) version: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) message: PickedMessage,
    pub(super) payload: PickedMessage,
}

impl FieldPicker for PickedRecord {
    fn field<'de, M: MapAccess<'de>>(&mut self, key: &str, map: &mut M) -> Result<(), M::Error> {
        match key {
            "uuid" => self.uuid = value(map)?,
            "timestamp" => self.timestamp = value(map)?,
            "sessionId" => self.session = value(map)?,
            "entrypoint" => self.entrypoint = value(map)?,
            "version" => self.version = value(map)?,
            "cwd" => self.cwd = value(map)?,
            "message" => self.message = value(map)?,
            "payload" => self.payload = value(map)?,
            _ => map.next_value::<IgnoredAny>().map(drop)?,
        }
        Ok(())
    }
}

/// The message or the payload of a record.
#[derive(Default)]
pub(super) struct PickedMessage {
    pub(super) is_there: bool,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) forked_from: Option<String>,
    pub(super) content: PickedContent,
}

impl FieldPicker for PickedMessage {
    fn field<'de, M: MapAccess<'de>>(&mut self, key: &str, map: &mut M) -> Result<(), M::Error> {
        self.is_there = true;
        match key {
            "id" => self.id = value(map)?,
            "name" => self.name = value(map)?,
            "forked_from_id" => self.forked_from = value(map)?,
            "content" => self.content = value(map)?,
            _ => map.next_value::<IgnoredAny>().map(drop)?,
        }
        Ok(())
    }
}

/// The content of a message: a text, or blocks.
#[derive(Default)]
pub(super) struct PickedContent {
    pub(super) text: Option<String>,
    /// Name of the first tool that is called.
    pub(super) tool: Option<String>,
}

impl FieldPicker for PickedContent {
    fn text(&mut self, text: &str) {
        self.text = Some(text.to_owned());
    }

    fn element<'de, S: SeqAccess<'de>>(&mut self, seq: &mut S) -> Result<bool, S::Error> {
        let Some(PickedValue(block)) = seq.next_element::<PickedValue<PickedBlock>>()? else {
            return Ok(false);
        };
        self.text = self.text.take().or(block.text);
        if block.kind.as_deref() == Some("tool_use") {
            self.tool = self.tool.take().or(block.name);
        }
        Ok(true)
    }
}

#[derive(Default)]
struct PickedBlock {
    kind: Option<String>,
    text: Option<String>,
    name: Option<String>,
}

impl FieldPicker for PickedBlock {
    fn field<'de, M: MapAccess<'de>>(&mut self, key: &str, map: &mut M) -> Result<(), M::Error> {
        match key {
            "type" => self.kind = value(map)?,
            "text" => self.text = value(map)?,
            "name" => self.name = value(map)?,
            _ => map.next_value::<IgnoredAny>().map(drop)?,
        }
        Ok(())
    }
}
